#include "training/datasets/cifar_file.hpp"

#include <algorithm>
#include <string>

#include "base/errc.hpp"

namespace weir::training {

Result<void> read_cifar(BytesView file, const CifarFormat& format, std::size_t records,
                        std::vector<std::uint8_t>& pixels, std::vector<std::uint16_t>& labels) {
  const std::size_t expected = records * format.record_bytes();
  if (file.size() != expected) {
    return Error{Errc::malformed, "it has " + std::to_string(file.size()) + " bytes instead of the " +
                                      std::to_string(expected) + " of " + std::to_string(records) + " images of " +
                                      std::to_string(format.record_bytes()) + " bytes: it is " +
                                      (file.size() < expected ? "truncated" : "too long")};
  }
  for (std::size_t i = 0; i < records; ++i) {
    const auto label = std::to_integer<std::uint16_t>(file[i * format.record_bytes() + format.label_at]);
    if (label >= format.classes) {
      return Error{Errc::malformed, "image " + std::to_string(i) + " has the label " + std::to_string(label) +
                                        ", and the last class is " + std::to_string(format.classes - 1)};
    }
  }
  const auto first_pixel = pixels.size();
  pixels.resize(first_pixel + records * CifarFormat::pixel_bytes);
  auto out = std::as_writable_bytes(std::span(pixels)).subspan(first_pixel);
  for (std::size_t i = 0; i < records; ++i) {
    const auto record = file.subspan(i * format.record_bytes(), format.record_bytes());
    labels.push_back(std::to_integer<std::uint16_t>(record[format.label_at]));
    std::ranges::copy(record.subspan(format.label_bytes), out.data() + i * CifarFormat::pixel_bytes);
  }
  return {};
}

}  // namespace weir::training
