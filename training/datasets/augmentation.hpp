#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/params.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

/// One way through the training examples: what random choices about an example depend on, besides its position.
struct Pass {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// Changes of training images that leave their class: as in He et al. (2016), a crop of the image's size out of the
/// image with a margin around it, and a reflection of half of the images. The margin is of the mean colour, which is 0
/// after normalization. What happens to an example depends on the pass and its position alone, so a resumed training,
/// or one with other workers, sees the same images.
struct Augmentation {
  std::int64_t crop_padding = 0;  ///< pixels of the margin; 0: no crop
  bool flip = false;

  /// What happens to one image.
  struct Draw {
    std::int64_t down = 0;   ///< how far the crop lies below the image
    std::int64_t right = 0;  ///< how far it lies to its right
    bool flip = false;
  };

  bool changes() const { return crop_padding > 0 || flip; }
  Draw draw(const Pass& pass, std::uint32_t position) const;
};

/// Writes an image after its draw: channel_values(channel)(place) is the value of the pixel there.
template <class ChannelValues>
void write_image(const ExampleShape& shape, const Augmentation::Draw& draw, ChannelValues&& channel_values,
                 float* out) {
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    const auto value = channel_values(static_cast<std::size_t>(channel));
    for (std::int64_t y = 0; y < shape.height; ++y, out += shape.width) {
      const std::int64_t from_y = y + draw.down;
      const bool inside = from_y >= 0 && from_y < shape.height;
      const std::int64_t row = (channel * shape.height + from_y) * shape.width;
      if (inside && draw.right == 0 && !draw.flip) {
        for (std::int64_t x = 0; x < shape.width; ++x) out[x] = value(static_cast<std::size_t>(row + x));
        continue;
      }
      for (std::int64_t x = 0; x < shape.width; ++x) {
        const std::int64_t from_x = (draw.flip ? shape.width - 1 - x : x) + draw.right;
        const bool there = inside && from_x >= 0 && from_x < shape.width;
        out[x] = there ? value(static_cast<std::size_t>(row + from_x)) : 0.0f;
      }
    }
  }
}

/// The parameters of a dataset whose options have an Augmentation `augmentation`; it adds its own to them.
template <class Options>
protocol::Params<Options> augmentation_params() {
  return protocol::Params<Options>()
      .integer(
          "crop_padding", [](Options& options) -> std::int64_t& { return options.augmentation.crop_padding; },
          {.minimum = 0, .maximum = 64}, "Crop training images at random out of a margin of so many pixels; 0: do not.")
      .flag(
          "flip", [](Options& options) -> bool& { return options.augmentation.flip; },
          "Reflect half of the training images, left to right.");
}

}  // namespace weir::training
