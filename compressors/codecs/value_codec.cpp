#include "compressors/codecs/value_codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/ensure.hpp"
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

constexpr ValueCodec fp32_codec{"fp32", 0, 0, fp32_bytes, fp32_encode, fp32_decode};

std::span<const ValueCodec* const> value_codecs() {
  static constexpr std::array codecs = {&fp32_codec, &fp16_codec, &bf16_codec, &int8_codec, &int4_codec, &int2_codec};
  return codecs;
}

Result<const ValueCodec*> value_codec(std::uint8_t id) {
  for (const ValueCodec* codec : value_codecs()) {
    if (codec->id == id) return codec;
  }
  return Error(Errc::unsupported, "value codec " + std::to_string(id) + " is not known to this build");
}

const ValueCodec& value_codec_named(std::string_view name) {
  const auto codecs = value_codecs();
  const auto at = std::ranges::find(codecs, name, &ValueCodec::name);
  ensure(at != codecs.end(), "a value codec's name was not validated");
  return **at;
}

std::vector<std::string_view> value_codec_names() {
  std::vector<std::string_view> names;
  for (const ValueCodec* codec : value_codecs()) names.push_back(codec->name);
  return names;
}

}  // namespace weir::compressors
