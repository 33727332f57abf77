#include "training/datasets/fashion_mnist.hpp"

#include <algorithm>

#include "base/errc.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/idx.hpp"
#include "training/datasets/images.hpp"

namespace weir::training {
namespace {

constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";
/// Mean and standard deviation of the training images.
constexpr Images::Scale scale{0.2860f, 0.3530f};

/// Adds advice to an error.
Error advise(const Error& error) {
  if (error.code == Errc::not_found) {
    return {Errc::not_found, "dataset fashion-mnist: " + error.context +
                                 "; install it with `apt-get install dataset-fashion-mnist`, or give the folder of its "
                                 "idx.gz files as dataset.path"};
  }
  return {error.code, "dataset fashion-mnist: " + error.context +
                          "; get it anew with `apt-get install --reinstall dataset-fashion-mnist`, or give another "
                          "folder as dataset.path"};
}

class Files final : public Dataset {
 public:
  Files(std::string folder, const ExampleShape& shape) : folder_(std::move(folder)), shape_(shape) {}

  ExampleShape shape() const override { return shape_; }
  Result<std::unique_ptr<Examples>> train() const override { return read("train"); }
  Result<std::unique_ptr<Examples>> test() const override { return read("t10k"); }

 private:
  Result<std::unique_ptr<Examples>> read(const std::string& part) const;

  std::string folder_;
  ExampleShape shape_;
};

Result<std::unique_ptr<Examples>> Files::read(const std::string& part) const {
  const auto images_path = folder_ + "/" + part + "-images-idx3-ubyte.gz";
  const auto labels_path = folder_ + "/" + part + "-labels-idx1-ubyte.gz";
  auto labels = read_idx_file(labels_path, 1);
  if (!labels) return advise(labels.error());
  auto images = read_idx_file(images_path, 3);
  if (!images) return advise(images.error());

  const auto expected = shape();
  if (images->extents[1] != expected.height || images->extents[2] != expected.width) {
    return advise({Errc::malformed, images_path + ": its images are not 28 x 28"});
  }
  if (images->extents[0] != labels->extents[0] || images->extents[0] == 0) {
    return advise({Errc::malformed, images_path + " has " + std::to_string(images->extents[0]) + " images, " +
                                        labels_path + " has " + std::to_string(labels->extents[0]) + " labels"});
  }
  if (std::ranges::max(labels->elements) >= expected.classes) {
    return advise({Errc::malformed, labels_path + ": a label is not below 10"});
  }
  return std::make_unique<Images>(expected, scale, std::move(images->elements), std::move(labels->elements));
}

}  // namespace

Result<std::unique_ptr<Dataset>> FashionMnist::make(protocol::NoOptions options, const std::string& path) {
  return std::make_unique<Files>(path.empty() ? debian_folder : path, shape(options, path).example);
}

}  // namespace weir::training
