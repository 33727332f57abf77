#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.hpp"

namespace weir::compressors {

// Fields of up to 32 bits, one behind the other, least significant bit first; what is left of the last byte is zero.
// `count` of them take packed_bytes(count, bits) bytes (kernels/pack.hpp).

/// Eight bytes from `at`, zeros behind the end.
inline std::uint64_t load_word(BytesView from, std::size_t at) {
  std::uint64_t word = 0;
  if (at + sizeof word <= from.size()) {
    std::memcpy(&word, from.data() + at, sizeof word);
  } else if (at < from.size()) {
    std::memcpy(&word, from.data() + at, from.size() - at);
  }
  return word;
}

/// Reads fields at random; zero bits wide, all of them are zero.
class Fields {
 public:
  Fields(BytesView bytes, unsigned bits) : bytes_(bytes), bits_(bits), mask_((std::uint64_t{1} << bits) - 1) {}

  std::uint32_t operator[](std::size_t i) const {
    const std::uint64_t bit = std::uint64_t{i} * bits_;
    return static_cast<std::uint32_t>((load_word(bytes_, bit / 8) >> (bit % 8)) & mask_);
  }

 private:
  BytesView bytes_;
  unsigned bits_;
  std::uint64_t mask_;
};

/// Writes fields one after the other: of each value the low `bits` bits.
class FieldWriter {
 public:
  FieldWriter(std::byte* to, unsigned bits) : to_(to), bits_(bits), mask_((std::uint64_t{1} << bits) - 1) {}

  void add(std::uint32_t value) {
    pending_ |= (value & mask_) << filled_;
    for (filled_ += bits_; filled_ >= 8; filled_ -= 8, pending_ >>= 8) *to_++ = static_cast<std::byte>(pending_);
  }
  /// Writes what is left; to be called once, at the end.
  void finish() {
    if (filled_ > 0) *to_ = static_cast<std::byte>(pending_);
  }

 private:
  std::byte* to_;
  unsigned bits_;
  std::uint64_t mask_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;  // below 8 between values
};

}  // namespace weir::compressors
