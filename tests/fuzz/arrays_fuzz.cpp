#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ensure.hpp"
#include "training/datasets/array_file.hpp"

/// Any bytes are either refused or read as examples that lie within the file, each with a class.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto whole = weir::Segment::own(weir::Bytes(bytes.begin(), bytes.end()));
  const weir::training::ArrayFile file{size, [&](std::uint64_t offset, std::uint64_t count) {
                                         weir::ensure(offset <= size && count <= size - offset, "bytes of the file");
                                         return weir::Result<weir::Segment>(whole.slice(offset, count));
                                       }};
  constexpr weir::training::ExampleShape shape{.channels = 1, .height = 2, .width = 2, .classes = 3};
  for (const char* part : {"train", "test"}) {
    const auto arrays = weir::training::read_arrays(file, part, shape);
    if (!arrays) continue;
    const std::size_t example = 4 * weir::protocol::size_of(arrays->dtype);
    weir::ensure(arrays->inputs.size() == arrays->classes.size() * example, "an example for each class");
    weir::ensure(arrays->inputs.size() <= size, "examples reach beyond the file");
    for (const auto one : arrays->classes) weir::ensure(one < 3, "a class that is none");
  }
  return 0;
}
