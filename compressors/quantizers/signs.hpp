#pragma once

#include "compressors/kernels/quantization/signs.hpp"
#include "compressors/quantizers/quantizer.hpp"

namespace weir::compressors {

/// The base class of compressors that send only signs, on which the ranks then vote (Bernstein et al., ICML 2018 and
/// ICLR 2019): the result is -1 or 1. A bit cannot abstain, so zeros and ties are decided by fair coins: a rank votes
/// on a zero with a coin of its own, and a tie of the votes is decided by a coin that all ranks share. Both are
/// functions of seed, step, tensor and entry (kernels/quantization/signs.hpp). A weight whose gradient stays zero is
/// thus not driven in any direction. The code is
///
///     bit[]   per entry, least significant bit first: 1 if it is below zero; padded with zero bits
///
/// The code decodes to -1 and 1, whatever the size of the gradient, so no error bound holds.
class SignVote : public Quantizer {
 public:
  /// A vote is not on the gradient's scale: steps of equal length require that every tensor is taken, as in the papers.
  std::uint64_t vector_entries_min() const override { return 0; }
  /// Exact for up to 2000 ranks; with more, the rounding of the mean can hide the difference of one vote.
  Result<void> conclude(at::Tensor& mean, const Round& round) override;
  Result<void> conclude_all(std::span<at::Tensor> means, std::span<const Round> rounds) override;
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Format format() const override { return Format::signs; }
  std::size_t code_bytes(const Extent& extent) const override;
  std::size_t unit() const override { return 8; }
  Result<void> check(BytesView code, const Extent& extent) const override;
  void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                std::span<float> sum) const override;
  Result<void> read_add_on_device(std::span<const device::ToAdd> codes) const override;
};

/// The base class of compressors that send one of two values for every entry; a derived class says which. The code is
///
///     f32     the value for entries that are not below zero
///     f32     the value for entries below zero
///     bit[]   per entry, least significant bit first: 1 if it is below zero; padded with zero bits
///
/// The values of a derived class must be at least as good as sign(x) times the mean magnitude, so that the error is at
/// most (1 - 1/n) |x|^2.
class TwoValues : public Quantizer {
 public:
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  struct Values {
    float positive = 0;
    float negative = 0;
  };
  /// The two values for a tensor of `entries` entries.
  virtual Values values_of(const SignSums& sums, std::uint64_t entries) const = 0;

  bool write(std::span<const float> values, const Extent& extent, const Round& round, std::span<std::byte> code) final;
  Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) final;
  std::size_t head_bytes() const final;
  void write_head(const Extent& extent, const SignSums& sums, std::span<std::byte> head) const final;
  Format format() const override { return Format::two_values; }
  std::size_t code_bytes(const Extent& extent) const override;
  std::size_t unit() const override { return 8; }
  Result<void> check(BytesView code, const Extent& extent) const override;
  void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                std::span<float> sum) const override;
  Result<void> read_add_on_device(std::span<const device::ToAdd> codes) const override;
};

}  // namespace weir::compressors
