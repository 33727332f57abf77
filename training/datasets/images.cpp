#include "training/datasets/images.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/ensure.hpp"
#include "base/xxh3.hpp"

namespace weir::training {
namespace {

std::size_t numbers_of(const ExampleShape& shape) {
  return static_cast<std::size_t>(shape.channels * shape.height * shape.width);
}

}  // namespace

Images::Images(ExampleShape shape, std::vector<Scale> scales, Pixels pixels, std::vector<std::uint16_t> classes,
               const Augmentation& augmentation)
    : shape_(shape), pixels_(std::move(pixels)), classes_(std::move(classes)), augmentation_(augmentation) {
  const auto channels = static_cast<std::size_t>(shape_.channels);
  ensure(scales.size() == 1 || scales.size() == channels, "one scale, or one for each channel");
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const auto& scale = scales[scales.size() == 1 ? 0 : channel];
    lines_.push_back({1 / ((pixels_.floats ? 1 : 255) * scale.deviation), -scale.mean / scale.deviation});
  }
  const std::size_t number_bytes = pixels_.floats ? sizeof(float) : 1;
  ensure(pixels_.bytes.size() == classes_.size() * numbers_of(shape_) * number_bytes,
         "an image without a class or the reverse");
}

std::uint64_t Images::hash() const {
  const BytesView pixels = pixels_.bytes.bytes();
  const std::uint64_t of_classes = XXH3_64bits(classes_.data(), classes_.size() * sizeof(classes_[0]));
  return XXH3_64bits_withSeed(pixels.data(), pixels.size(), of_classes);
}

Batch Images::make(std::span<const std::uint32_t> positions, const Pass* pass, const Batch& memory) const {
  const auto count = static_cast<std::int64_t>(positions.size());
  const std::array extents{count, shape_.channels, shape_.height, shape_.width};
  Batch batch{room_in(memory.input, extents, at::kFloat), room_in(memory.target, {count}, at::kLong)};
  const bool changes = pass != nullptr && augmentation_.changes();
  auto* out = batch.input.data_ptr<float>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  const auto size = numbers_of(shape_);
  const std::byte* const all = pixels_.bytes.bytes().data();
  for (const auto position : positions) {
    ensure(position < classes_.size(), "an example beyond the last one");
    const auto draw = changes ? augmentation_.draw(*pass, position) : Augmentation::Draw();
    if (pixels_.floats) {
      const auto values = [&](std::size_t channel) {
        return [image = all + position * size * sizeof(float), line = lines_[channel]](std::size_t at) {
          float number = 0;  // a file may put floats at any address
          std::memcpy(&number, image + at * sizeof(float), sizeof(float));
          return number * line.factor + line.offset;
        };
      };
      write_image(shape_, draw, values, out);
    } else {
      const auto values = [&](std::size_t channel) {
        return [image = all + position * size, line = lines_[channel]](std::size_t at) {
          return static_cast<float>(std::to_integer<unsigned>(image[at])) * line.factor + line.offset;
        };
      };
      write_image(shape_, draw, values, out);
    }
    out += size;
    *target++ = classes_[position];
  }
  return batch;
}

Images::Pixels pixels_of(std::vector<std::uint8_t> bytes) {
  auto owner = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
  const BytesView view = std::as_bytes(std::span(*owner));
  return {Segment(std::move(owner), view), false};
}

}  // namespace weir::training
