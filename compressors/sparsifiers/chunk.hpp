#pragma once

#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/per_tensor.hpp"
#include "compressors/sparsifiers/warmup.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Sends whole chunks of consecutive entries, the same on every rank, chosen by the sum of all ranks' norms (Sun et al.
/// 2019, "gradient sparsification" on 512 GPUs). No positions are sent, and the sums do not grow with the number of
/// ranks. Two passes, both all-reduce of bare float32:
///
///     1. the L1 norm of each chunk
///     2. the entries of the ceil(ratio * chunks) chunks of the largest summed norm, in ascending order; among equals,
///        the first
///
/// The last chunk of a tensor may be shorter. Biased: its memory is dgc, for momentum correction; the warm-up is that
/// of the compressor dgc.
class Chunk final : public Compressor {
 public:
  static constexpr std::string_view type_name = "chunk";
  static constexpr std::string_view summary = "The chunks in which all ranks together have most, summed densely.";
  static constexpr std::string_view default_memory = "dgc";

  struct Options {
    std::int64_t chunk = 512;
    double ratio = 0.01;
    Warmup warmup = {};
  };
  static protocol::Params<Options> params();
  explicit Chunk(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.passes = {Reduction::sum, Reduction::sum}, .sparse = true}; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  WarmupLength warmup_length(const TrainingCourse& course) const override {
    return {.epochs = options_.warmup.length(course)};
  }
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;
  Result<void> absorb(std::span<const BytesView> results, const Round& round) override;
  Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                            Selection& out) const override;
  /// With several ranks the bound is 1: a rank's own largest chunk need not be among those that are sent.
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  bool wants_dense(const Round& round) const override { return ratio(round) >= 1; }
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  /// The choice for a tensor's current round; replaced in the next round.
  struct Choice {
    std::uint64_t entries = 0;
    std::vector<std::uint32_t> chunks;  ///< ascending; empty before the first pass is absorbed
    std::vector<float> norms;           ///< of all chunks, this rank's and then those of all ranks together
  };
  double ratio(const Round& round) const { return options_.warmup.ratio(options_.ratio, round); }
  std::size_t chunks_of(std::uint64_t entries) const;
  std::size_t chosen_of(std::uint64_t entries, const Round& round) const;
  std::span<const float> part(std::span<const float> values, std::size_t chunk) const;
  Result<void> write_norms(const at::Tensor& gradient, const Round& round, Bytes& out);
  Result<void> write_chosen(const at::Tensor& gradient, const Round& round, Bytes& out);
  /// How many entries the chosen chunks have.
  std::uint64_t entries_in(const Choice& choice) const;
  /// The choice for a tensor of `entries` entries, if `payload` has the size of its second payload. Fails with:
  /// malformed.
  Result<const Choice*> choice_for(BytesView payload, const Round& round, std::uint64_t entries) const;

  Options options_;
  PerTensor<Choice> choices_;
  std::vector<float> read_;  // a chunk in do_decode_add(), kept between calls to reuse its memory
};

}  // namespace weir::compressors
