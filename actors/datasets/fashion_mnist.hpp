#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "actors/datasets/dataset.hpp"

namespace weir::actors {

/// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of 28 x 28, ten kinds of clothes;
/// from the four idx.gz files of its authors, as Debian's dataset-fashion-mnist installs them.
class FashionMnist final : public Dataset {
 public:
  static constexpr std::string_view type_name = "fashion-mnist";
  static constexpr std::string_view summary = "60,000 + 10,000 grey images of clothes, 28 x 28, 10 classes";
  static nlohmann::json schema();
  /// `path` is the folder of the files; empty means Debian's.
  static Result<std::unique_ptr<Dataset>> make(const nlohmann::json& params, const std::string& path);

  explicit FashionMnist(std::string folder) : folder_(std::move(folder)) {}

  ExampleShape shape() const override { return {1, 28, 28, 10}; }
  Result<std::unique_ptr<Examples>> train() const override { return read("train"); }
  Result<std::unique_ptr<Examples>> test() const override { return read("t10k"); }

 private:
  Result<std::unique_ptr<Examples>> read(const std::string& part) const;

  std::string folder_;
};

}  // namespace weir::actors
