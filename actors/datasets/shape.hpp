#pragma once

#include <cstdint>
#include <optional>

namespace weir::actors {

/// What a model must fit: images of these extents, and the number of classes to tell apart.
struct ExampleShape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t classes = 2;

  friend bool operator==(const ExampleShape&, const ExampleShape&) = default;
};

/// What a dataset with given parameters holds, as far as that is known before its files are read.
struct DatasetShape {
  ExampleShape example;
  std::optional<std::uint64_t> train_examples;  ///< nothing: the files decide
};

}  // namespace weir::actors
