#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/per_tensor.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Random entries, the same on every rank, so that only values are sent and can be summed on the wire (Wangni et al.
/// 2018; Stich et al. 2018). The tensor is divided into ceil(ratio * n) strata of nearly equal length, and each stratum
/// sends one entry, drawn from (seed, step, tensor).
///
/// Unscaled, the values are a contraction by 1 - 1/L in expectation, where L is the length of the longest stratum; use
/// a memory. Scaled by the length of their stratum, they are unbiased, with a variance factor of L - 1.
///
/// With fp32, fp16 or bf16 values the payload is the bare array of numbers in the order of positions; 16-bit numbers
/// are divided by the number of ranks (Reduction). Steps: all-reduce. With other values it is gathered, and its body
/// (Format::seeded) is
///
///     varint  entries of the tensor
///     u8      value codec
///     ...     values, as the value codec writes them
class RandomK final : public Compressor {
 public:
  static constexpr std::string_view type_name = "randomk";
  static constexpr std::string_view summary = "Random entries, the same on every rank: summed without positions.";
  static constexpr std::string_view default_memory = "residual";

  struct Options {
    double ratio = 0.01;
    bool unbiased = false;
    std::string value_codec = "fp32";
    bool check_unsent = true;
  };
  static protocol::Params<Options> params();
  explicit RandomK(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override;
  Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                            Selection& out) const override;
  void write_part(Selection& chosen, std::uint32_t entries, Bytes& out) override;
  Result<void> read_part(BytesView payload, std::uint32_t entries, Selection& out) override;
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  double error_bound(std::uint64_t entries, const Round& round) const override;
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
  Result<void> do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  Reduction reduction() const;
  static void place(const Round& round, std::uint64_t entries, Selection& out);
  /// Fills the values of selection_.
  Result<void> draw(const at::Tensor& gradient, const Round& round);
  /// False if a value is NaN or infinite.
  bool draw_on_host(std::span<const float> values, const Round& round);
  Result<bool> draw_on_device(const at::Tensor& gradient, const Round& round);
  Result<void> check_entries(std::uint64_t entries, const Round& round) const;
  Result<void> read_values(BytesView payload, std::uint64_t entries, const Round& round,
                           std::vector<float>& values) const;
  /// Reads the payload's positions and the numbers in it, which are not multiplied by divisor().
  Result<void> read(BytesView payload, std::uint64_t entries, const Round& round, Selection& out) const;

  Options options_;
  Selection selection_;                              // of do_encode(), kept between calls to reuse its memory
  Selection read_;                                   // of do_decode_add(), likewise
  PerTensor<std::optional<std::uint64_t>> encoded_;  // entries of each tensor, which a bare sum does not carry
};

}  // namespace weir::compressors
