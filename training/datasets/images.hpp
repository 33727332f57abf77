#pragma once

#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "training/datasets/dataset.hpp"

namespace weir::training {

/// Images stored as bytes, a quarter of the size of floats, or as floats; a batch is normalised when it is requested.
class Images final : public Examples {
 public:
  /// What is stored of an image becomes (x - mean) / deviation, where the bytes are x = byte / 255.
  struct Scale {
    float mean = 0;
    float deviation = 1;
  };
  /// Where the pixels are: one image after another, as many as there are classes.
  struct Pixels {
    Segment bytes;
    bool floats = false;
  };

  /// `scales`: one for all channels, or one for each.
  Images(ExampleShape shape, std::vector<Scale> scales, Pixels pixels, std::vector<std::uint16_t> classes,
         const Augmentation& augmentation = {});

  std::span<const std::uint16_t> classes() const override { return classes_; }
  std::uint64_t hash() const override;

 private:
  Batch make(std::span<const std::uint32_t> positions, const Pass* pass, const Batch& memory) const override;

  /// x * factor + offset is the same as the scale.
  struct Line {
    float factor;
    float offset;
  };

  ExampleShape shape_;
  std::vector<Line> lines_;  ///< by channel
  Pixels pixels_;
  std::vector<std::uint16_t> classes_;
  Augmentation augmentation_;
};

/// Takes bytes over as pixels.
Images::Pixels pixels_of(std::vector<std::uint8_t> bytes);

}  // namespace weir::training
