#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

struct Batch {
  at::Tensor input;   ///< float32, [count, channels, height, width], normalised
  at::Tensor target;  ///< int64 classes, [count]
};

/// Labelled examples. Read-only once made, so any thread may take batches.
class Examples {
 public:
  virtual ~Examples() = default;

  /// The class of every example; its size is the number of examples.
  virtual std::span<const std::uint8_t> classes() const = 0;

  /// The examples at these positions, in this order. Every position is below classes().size().
  virtual Batch batch(std::span<const std::uint32_t> positions) const = 0;
};

/// A source of training and test examples. The catalog makes it without reading any files.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual ExampleShape shape() const = 0;

  /// Read the examples. Fail with: not_found (a file; the context says how to get it), malformed (a file), io.
  virtual Result<std::unique_ptr<Examples>> train() const = 0;
  virtual Result<std::unique_ptr<Examples>> test() const = 0;
};

}  // namespace weir::training
