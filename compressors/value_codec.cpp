#include "compressors/value_codec.hpp"

#include <array>
#include <cstring>
#include <string>

#include "base/errc.hpp"

namespace weir::compressors {
namespace {

std::size_t fp32_bytes(std::size_t count) { return count * sizeof(float); }

void fp32_encode(std::span<const float> values, std::span<std::byte> out) {
  if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
}

void fp32_decode(BytesView in, std::span<float> values) {
  if (!values.empty()) std::memcpy(values.data(), in.data(), values.size_bytes());
}

}  // namespace

constexpr ValueCodec fp32_codec{"fp32", 0, fp32_bytes, fp32_encode, fp32_decode};

Result<const ValueCodec*> value_codec(std::uint8_t id) {
  static constexpr std::array codecs = {&fp32_codec};
  for (const ValueCodec* codec : codecs) {
    if (codec->id == id) return codec;
  }
  return Error(Errc::unsupported, "value codec " + std::to_string(id) + " is not known to this build");
}

}  // namespace weir::compressors
