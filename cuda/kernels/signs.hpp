#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/code.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of compressors/kernels/quantization/signs.hpp: one bit per entry, least significant bit first, set if the entry
// is below zero; unused bits of the last byte are zero. All pointers are to the device's memory, may have any alignment
// that their type allows, and may not overlap. The bits are the CPU's for all values; where one is NaN or infinite,
// `report->largest` says so and the bits mean nothing.

/// Twin of write_votes(), of several whole tensors. Per entry: 4 bytes read, 1/8 byte written.
Result<void> write_votes(std::span<const CodeToWrite> tensors, StreamHandle stream);

/// The sums of the values of each sign, as the twin of the same name.
struct SignSums {
  double positive = 0;
  double negative = 0;
  std::uint64_t negatives = 0;
};

/// How many SignSums write_signs() needs beside its result.
constexpr std::uint64_t sign_sum_parts(std::uint64_t n) { return (n + 4095) / 4096; }

/// Of a tensor, what write_signs() reads and writes.
struct SignsToWrite {
  const float* values;
  std::uint64_t n;
  std::byte* bits;
  SignSums* parts;  ///< scratch, sign_sum_parts(n) of them
  SignSums* sums;   ///< is set
  Report* report;
};

/// Twin of write_signs() with sums, of several whole tensors. Per entry: 4 bytes read, 1/8 byte written.
Result<void> write_signs(std::span<const SignsToWrite> tensors, StreamHandle stream);

/// Bits that stand for two values, which are added to `sum`.
struct SignsToAdd {
  const std::byte* bits;
  std::uint64_t n;
  float positive;
  float negative;
  float* sum;
};

/// Twin of add_by_sign(), for several tensors. Per entry: 4 1/8 bytes read, 4 written.
Result<void> add_by_sign(std::span<const SignsToAdd> tensors, StreamHandle stream);

/// The votes of all ranks for the signs of a tensor.
struct VotesToCount {
  RandomKey coins;
  float* values;
  std::uint64_t n;
};

/// Twin of take_majority(), of several tensors. Per entry: 4 bytes read, 4 written.
Result<void> take_majority(float least, std::span<const VotesToCount> tensors, StreamHandle stream);

}  // namespace weir::cuda
