#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "base/ensure.hpp"

namespace weir::compressors {

// Bit fields of up to 32 bits, stored without gaps, least significant bit first; unused bits of the last byte are zero.
// `count` fields take packed_bytes(count, bits) bytes (kernels/pack.hpp).

/// The eight bytes that start at offset `at`; bytes past the end read as zero.
inline std::uint64_t load_word(BytesView from, std::size_t at) {
  std::uint64_t word = 0;
  if (at + sizeof word <= from.size()) {
    std::memcpy(&word, from.data() + at, sizeof word);
  } else if (at < from.size()) {
    std::memcpy(&word, from.data() + at, from.size() - at);
  }
  return word;
}

/// Random access to bit fields. With `bits` = 0 every field reads as zero.
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

/// Writes a bitmap: set() is called with ascending positions, and all other bits become zero.
class BitWriter {
 public:
  explicit BitWriter(std::span<std::byte> to) : to_(to) {}

  void set(std::uint64_t bit) {
    while (bit >= start_ + 64) flush();
    word_ |= std::uint64_t{1} << (bit - start_);
  }
  /// Must be called once, after the last set().
  void finish() {
    while (!to_.empty()) flush();
  }

 private:
  void flush() {
    ensure(!to_.empty(), "room for the bits that are set");
    const std::size_t size = std::min(to_.size(), sizeof word_);
    std::memcpy(to_.data(), &word_, size);
    to_ = to_.subspan(size);
    start_ += 64;
    word_ = 0;
  }

  std::span<std::byte> to_;
  std::uint64_t start_ = 0;  // of the word
  std::uint64_t word_ = 0;
};

/// Writes bit fields in sequence: the low `bits` bits of each value.
class FieldWriter {
 public:
  FieldWriter(std::byte* to, unsigned bits) : to_(to), bits_(bits), mask_((std::uint64_t{1} << bits) - 1) {}

  void add(std::uint32_t value) {
    pending_ |= (value & mask_) << filled_;
    filled_ += bits_;
    if (filled_ < 32) return;
    std::memcpy(to_, &pending_, 4);
    to_ += 4;
    pending_ >>= 32;
    filled_ -= 32;
  }
  /// Writes the bits still pending. Must be called once, after the last add().
  void finish() {
    if (filled_ > 0) std::memcpy(to_, &pending_, (filled_ + 7) / 8);
  }

 private:
  std::byte* to_;
  unsigned bits_;
  std::uint64_t mask_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;  // below 32 between values
};

}  // namespace weir::compressors
