#pragma once

#include <cstdint>
#include <optional>

namespace weir::training {

/// The examples that a model must accept: images of this size, and the number of classes to distinguish.
struct ExampleShape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t classes = 2;

  friend bool operator==(const ExampleShape&, const ExampleShape&) = default;
};

/// The contents of a dataset with given parameters, as far as they are known before its files are read.
struct DatasetShape {
  ExampleShape example;
  std::optional<std::uint64_t> train_examples;  ///< nothing: depends on the files
};

}  // namespace weir::training
