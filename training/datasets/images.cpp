#include "training/datasets/images.hpp"

#include <ATen/ops/empty.h>

#include <utility>

#include "base/ensure.hpp"

namespace weir::training {
namespace {

std::size_t pixels_of(const ExampleShape& shape) {
  return static_cast<std::size_t>(shape.channels * shape.height * shape.width);
}

}  // namespace

Images::Images(ExampleShape shape, Scale scale, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> classes)
    : shape_(shape), scale_(scale), pixels_(std::move(pixels)), classes_(std::move(classes)) {
  ensure(pixels_.size() == classes_.size() * pixels_of(shape_), "an image without a class or the reverse");
}

Batch Images::batch(std::span<const std::uint32_t> positions) const {
  const auto count = static_cast<std::int64_t>(positions.size());
  Batch batch{at::empty({count, shape_.channels, shape_.height, shape_.width}, at::kFloat),
              at::empty({count}, at::kLong)};
  auto* out = batch.input.data_ptr<float>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  const float factor = 1 / (255 * scale_.deviation);
  const float offset = -scale_.mean / scale_.deviation;
  const auto size = pixels_of(shape_);
  for (const auto position : positions) {
    ensure(position < classes_.size(), "an example beyond the last one");
    const auto* image = pixels_.data() + position * size;
    for (std::size_t i = 0; i < size; ++i) *out++ = static_cast<float>(image[i]) * factor + offset;
    *target++ = classes_[position];
  }
  return batch;
}

}  // namespace weir::training
