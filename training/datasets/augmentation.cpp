#include "training/datasets/augmentation.hpp"

#include "base/philox.hpp"

namespace weir::training {

Augmentation::Draw Augmentation::draw(const Pass& pass, std::uint32_t position) const {
  const auto words = Philox(pass.seed).at(pass.epoch, position, 0);
  const auto places = static_cast<std::uint32_t>(2 * crop_padding + 1);
  return {.down = std::int64_t{Philox::below(places, words[0])} - crop_padding,
          .right = std::int64_t{Philox::below(places, words[1])} - crop_padding,
          .flip = flip && (words[2] & 1) != 0};
}

}  // namespace weir::training
