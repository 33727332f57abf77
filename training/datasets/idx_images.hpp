#pragma once

#include <memory>
#include <string>

#include "training/datasets/dataset.hpp"
#include "training/datasets/images.hpp"

namespace weir::training {

/// What the datasets of the MNIST family differ in: four idx files with well-known names, gzipped or not.
struct IdxFolder {
  std::string dataset;  ///< its name, for errors
  std::string folder;
  std::string if_missing;  ///< what to do without its files, a clause
  std::string if_broken;   ///< what to do with broken ones
  ExampleShape shape;
  Images::Scale scale;
  Augmentation augmentation;
};
std::unique_ptr<Dataset> idx_images(IdxFolder folder);

}  // namespace weir::training
