#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ensure.hpp"
#include "training/datasets/cifar_file.hpp"

/// Any bytes are either refused or read as images whose labels are classes. The first byte chooses how many images are
/// expected, and which of the two formats.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t images = data[0] % 4;
  const bool two_labels = data[0] >= 128;
  const weir::training::CifarFormat format{.label_bytes = two_labels ? std::size_t{2} : std::size_t{1},
                                           .label_at = two_labels ? std::size_t{1} : std::size_t{0},
                                           .classes = static_cast<std::uint16_t>(two_labels ? 100 : 10)};
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint16_t> labels;
  const auto read =
      weir::training::read_cifar(std::as_bytes(std::span(data + 1, size - 1)), format, images, pixels, labels);
  weir::ensure(labels.size() == (read ? images : 0), "all labels or none");
  weir::ensure(pixels.size() == labels.size() * weir::training::CifarFormat::pixel_bytes, "an image for each label");
  for (const auto label : labels) weir::ensure(label < format.classes, "a label that is no class");
  return 0;
}
