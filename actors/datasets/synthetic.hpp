#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "actors/datasets/dataset.hpp"

namespace weir::actors {

/// Images made from numbers alone: each class is a random pattern, each example its pattern with noise. The
/// same parameters give the same images on every machine. For tests and for trying things where no data is
/// installed.
class Synthetic final : public Dataset {
 public:
  static constexpr std::string_view type_name = "synthetic";
  static constexpr std::string_view summary = "noisy patterns made up on the spot, the same everywhere; needs no files";
  static nlohmann::json schema();
  /// `path` must be empty: there are no files.
  static Result<std::unique_ptr<Dataset>> make(const nlohmann::json& params, const std::string& path);

  struct Options {
    ExampleShape shape{1, 28, 28, 10};
    std::uint32_t train_examples = 4096;
    std::uint32_t test_examples = 1024;
    double noise = 0.5;  ///< share of each pixel that is noise
    std::uint64_t seed = 1;
  };
  explicit Synthetic(Options options) : options_(options) {}

  ExampleShape shape() const override { return options_.shape; }
  Result<std::unique_ptr<Examples>> train() const override { return draw(options_.train_examples, 1); }
  Result<std::unique_ptr<Examples>> test() const override { return draw(options_.test_examples, 2); }

 private:
  Result<std::unique_ptr<Examples>> draw(std::uint32_t count, std::uint64_t part) const;

  Options options_;
};

}  // namespace weir::actors
