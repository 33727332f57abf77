#pragma once

#include <array>
#include <cstdint>

namespace weir {

/// Philox4x32-10 (Salmon et al., SC 2011): a counter-based generator, whose numbers are a pure function of key and
/// counter. Any thread, rank or device can compute any number without computing those before it.
class Philox {
 public:
  using Block = std::array<std::uint32_t, 4>;

  explicit constexpr Philox(std::uint64_t seed) : key_{low(seed), high(seed)} {}

  /// The four words at `counter`.
  constexpr Block at(const Block& counter) const {
    Block c = counter;
    std::array<std::uint32_t, 2> key = key_;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
      c = {high(p1) ^ c[1] ^ key[0], low(p1), high(p0) ^ c[3] ^ key[1], low(p0)};
      key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
    }
    return c;
  }

  /// The words for the `index`-th draw about tensor `tensor` in step `step`.
  constexpr Block at(std::uint64_t step, std::uint32_t tensor, std::uint32_t index) const {
    return at(Block{index, tensor, low(step), high(step)});
  }

  /// Maps `word` to [0, bound) by multiplication; the bias is below bound / 2^32.
  static constexpr std::uint32_t below(std::uint32_t bound, std::uint32_t word) {
    return high(std::uint64_t{bound} * word);
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  std::array<std::uint32_t, 2> key_;
};

}  // namespace weir
