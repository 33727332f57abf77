#pragma once

#include <vector>

#include "training/datasets/dataset.hpp"

namespace weir::training {

/// Images stored as bytes, a quarter of the size of floats; a batch is normalised when it is requested.
class Images final : public Examples {
 public:
  /// Converts bytes to floats: (byte / 255 - mean) / deviation.
  struct Scale {
    float mean = 0;
    float deviation = 1;
  };

  /// `pixels` holds one image after another, as many as there are `classes`.
  Images(ExampleShape shape, Scale scale, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> classes);

  std::span<const std::uint8_t> classes() const override { return classes_; }
  Batch batch(std::span<const std::uint32_t> positions) const override;

 private:
  ExampleShape shape_;
  Scale scale_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> classes_;
};

}  // namespace weir::training
