#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/random.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of compressors/kernels/quantization/signs.hpp: one bit per entry, least significant bit first, set if the entry
// is below zero; unused bits of the last byte are zero. All pointers are to the device's memory, may have any alignment
// that their type allows, and may not overlap. The bits are the CPU's for all values; where one is NaN or infinite,
// `report->largest` says so and the bits mean nothing.

/// Twin of write_votes(), but that `first` may be any multiple of 16. Per entry: 4 bytes read, 1/8 byte written.
Result<void> write_votes(const float* values, std::uint64_t n, std::uint64_t first, const RandomKey& coins,
                         std::byte* bits, Report* report, StreamHandle stream);

/// Twin of write_signs() without sums. Per entry: 4 bytes read, 1/8 byte written.
Result<void> write_signs(const float* values, std::uint64_t n, std::byte* bits, Report* report, StreamHandle stream);

/// The sums of the values of each sign, as the twin of the same name.
struct SignSums {
  double positive = 0;
  double negative = 0;
  std::uint64_t negatives = 0;
};

/// How many SignSums write_signs() needs beside its result.
constexpr std::uint64_t sign_sum_parts(std::uint64_t n) { return (n + 4095) / 4096; }

/// Twin of write_signs() with sums, of a whole tensor: `*sums` is set. `parts` is scratch, sign_sum_parts(n) of them.
/// Per entry: 4 bytes read, 1/8 byte written.
Result<void> write_signs(const float* values, std::uint64_t n, std::byte* bits, SignSums* parts, SignSums* sums,
                         Report* report, StreamHandle stream);

/// Twin of add_by_sign(). Per entry: 4 1/8 bytes read, 4 written.
Result<void> add_by_sign(const std::byte* bits, std::uint64_t n, float positive, float negative, float* sum,
                         StreamHandle stream);

/// Twin of take_majority(). Per entry: 4 bytes read, 4 written.
Result<void> take_majority(float least, const RandomKey& coins, float* values, std::uint64_t n, StreamHandle stream);

}  // namespace weir::cuda
