#include "training/datasets/mnist.hpp"

#include "training/datasets/idx_images.hpp"

namespace weir::training {

Result<std::unique_ptr<Dataset>> Mnist::make(const Options& options, const std::string& path) {
  const std::string source =
      "the four files train- and t10k-, images-idx3-ubyte and labels-idx1-ubyte, gzipped or not, are those of "
      "http://yann.lecun.com/exdb/mnist";
  return idx_images({.dataset = "mnist",
                     .folder = path,
                     .if_missing = source + ", and their folder is dataset.path",
                     .if_broken = "get it anew: " + source,
                     .shape = shape(options, path).example,
                     .scale = {0.1307f, 0.3081f},  // mean and deviation of the training images
                     .augmentation = options.augmentation});
}

}  // namespace weir::training
