#pragma once

#include <cstdint>
#include <optional>

namespace weir::training {

inline constexpr std::int64_t classes_max = 65536;  ///< Examples::classes() has 16 bits for each

/// The examples that a model must accept: images of this size, of which each has one of so many classes; or, if
/// `tokens` is not 0, texts of so many tokens, of which each is one of so many classes and is to be predicted from
/// those before.
struct ExampleShape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t classes = 2;
  std::int64_t tokens = 0;

  friend bool operator==(const ExampleShape&, const ExampleShape&) = default;
};

/// Partitions see a text as this many sections of equal length, which stand for classes, or as one for each example if
/// those are fewer.
inline constexpr std::uint64_t text_sections_max = 1024;

/// The contents of a dataset with given parameters, as far as they are known before its files are read.
struct DatasetShape {
  ExampleShape example;
  std::optional<std::uint64_t> train_examples;  ///< nothing: depends on the files
};

}  // namespace weir::training
