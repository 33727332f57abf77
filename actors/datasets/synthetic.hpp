#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "actors/datasets/shape.hpp"
#include "base/result.hpp"

namespace weir::actors {

class Dataset;

/// Generated images: each class is a random pattern, and each example its class's pattern with noise. The same
/// parameters give the same images on every machine. For tests, and for trying things where no data is installed.
struct Synthetic {
  static constexpr std::string_view type_name = "synthetic";
  static constexpr std::string_view summary = "noisy patterns made up on the spot, the same everywhere; needs no files";
  static nlohmann::json schema();
  static DatasetShape shape(const nlohmann::json& params, std::string_view) {
    return {{1, params.at("height"), params.at("width"), params.at("classes")},
            params.at("train_examples").get<std::uint64_t>()};
  }
  /// `path` must be empty: there are no files.
  static Result<std::unique_ptr<Dataset>> make(const nlohmann::json& params, const std::string& path);
};

}  // namespace weir::actors
