#include "training/datasets/fashion_mnist.hpp"

#include "training/datasets/idx_images.hpp"

namespace weir::training {
namespace {

constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";

}  // namespace

Result<std::unique_ptr<Dataset>> FashionMnist::make(const Options& options, const std::string& path) {
  return idx_images({.dataset = "fashion-mnist",
                     .folder = path.empty() ? debian_folder : path,
                     .if_missing = "install it with `apt-get install dataset-fashion-mnist`, or give the folder of its "
                                   "idx files as dataset.path",
                     .if_broken = "get it anew with `apt-get install --reinstall dataset-fashion-mnist`, or give "
                                  "another folder as dataset.path",
                     .shape = shape(options, path).example,
                     .scale = {0.2860f, 0.3530f},  // mean and deviation of the training images
                     .augmentation = options.augmentation});
}

}  // namespace weir::training
