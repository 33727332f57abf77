#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

/// Identifies a stream of random words.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< below 2^48
  std::uint32_t tensor = 0;
  std::uint16_t stream = 0;  ///< the rank, or 0 where all ranks must draw the same
};

/// 32 random bits per entry, as a pure function of the key and the entry's position, so that any thread, rank or device
/// can compute any part of the stream. The words come from Philox4x32-10 (Salmon et al. 2011) at the counter
///
///     {8 * (i / 64) + i % 8,  tensor,  low step,  high step | stream << 16}
///
/// for entry i; of the four words there, the entry takes word (i % 64) / 16, rotated by 16 bits if (i % 16) >= 8. Two
/// entries thus share each Philox word, which halves the cost. Each entry's bits are uniform, and the two are nearly
/// independent: the high half of one is the low half of the other. Fills `out` with the words of the entries `begin`,
/// `begin` + 1, ...; `begin` is a multiple of 64.
void fill_random(const RandomKey& key, std::uint64_t begin, std::span<std::uint32_t> out);

/// The word of one entry.
std::uint32_t random_word(const RandomKey& key, std::uint64_t entry);

/// Maps `word` to [0, 1) in steps of 2^-24.
inline float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

}  // namespace weir::compressors
