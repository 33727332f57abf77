#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "training/datasets/augmentation.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

/// Examples as a model takes them. Of images, `input` is float32 [count, channels, height, width], normalised, and
/// `target` the int64 classes, [count]. Of texts, `input` is int64 [count, tokens], and `target`, of the same shape,
/// the token that follows each of them.
struct Batch {
  at::Tensor input;
  at::Tensor target;
};

/// Examples for training or testing. Read-only once made, so any thread may take batches.
class Examples {
 public:
  virtual ~Examples() = default;

  /// The class of every example, by which partitions divide them; its size is the number of examples. The class of a
  /// text is the section of the whole that it is from.
  virtual std::span<const std::uint16_t> classes() const = 0;

  /// Of all examples and their classes: those who have read other files have another one.
  virtual std::uint64_t hash() const = 0;

  /// The examples at these positions, in this order. Every position is below classes().size().
  Batch batch(std::span<const std::uint32_t> positions) const { return make(positions, nullptr, {}); }

  /// The same as one pass of the training sees them: changed at random, if the dataset was asked to. `memory`: a batch
  /// in the host's memory that nobody reads any more. If this one is as large, it lies there: fresh memory for images
  /// may take longer than what is written to it.
  Batch augmented(std::span<const std::uint32_t> positions, const Pass& pass, const Batch& memory = {}) const {
    return make(positions, &pass, memory);
  }

 private:
  /// `pass`: null for the examples as they are.
  virtual Batch make(std::span<const std::uint32_t> positions, const Pass* pass, const Batch& memory) const = 0;
};

/// A tensor of these extents in the host's memory: `memory`, if that is one.
at::Tensor room_in(const at::Tensor& memory, at::IntArrayRef extents, at::ScalarType type);

/// A source of training and test examples. The catalog makes it without reading any files.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual ExampleShape shape() const = 0;

  /// Read the examples. Fail with: not_found (a file; the context says how to get it), malformed (a file), io,
  /// exhausted (too many files).
  virtual Result<std::unique_ptr<Examples>> train() const = 0;
  virtual Result<std::unique_ptr<Examples>> test() const = 0;
};

}  // namespace weir::training
