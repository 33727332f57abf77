#pragma once

#include <cstdint>

#include "compressors/sparsifiers/sparsifier.hpp"
#include "compressors/sparsifiers/warmup.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// The entries that DGC samples: every `stride`-th, starting at a random one of the first `stride`.
struct SamplePlan {
  std::uint64_t stride = 1;
  std::uint64_t samples = 0;

  static SamplePlan of(std::uint64_t entries, double ratio, double sample_ratio);
};

/// Deep gradient compression (Lin et al., ICLR 2018): like top-k, but the threshold is estimated from a sample of the
/// tensor and adapted until it keeps about ratio * n entries, never more. The first entry of the sample is drawn from
/// (seed, step, tensor). Zeros are not sent. Biased: pair it with the dgc memory, which has the momentum correction.
/// Steps: all-gather.
///
/// The intended number of entries is never below `min_kept`: at a ratio of 0.1 % a tensor of a few thousand entries,
/// such as the weights of a last layer, would send one or two per round, and these would be stale by the time they are
/// sent.
///
/// In a round whose ratio is 1 the tensors go dense; the dgc memory then applies momentum after averaging and masks
/// nothing.
///
/// Follows the authors' code, except where that drops surplus entries by position: here the smallest ones are dropped.
class Dgc final : public Sparsifier {
 public:
  static constexpr std::string_view type_name = "dgc";
  static constexpr std::string_view summary =
      "Deep gradient compression: largest entries by a sampled threshold, with a warm-up.";
  static constexpr std::string_view default_memory = "dgc";

  struct Options {
    double ratio = 0.001;
    std::int64_t min_kept = 64;
    Warmup warmup = {};
    double sample_ratio = 0.01;
    double upper_bound = 1.3;
    double lower_bound = 0.8;
    std::int64_t adaptations_max = 10;
    bool resample = true;
    SparseCodecs codecs = {.value = "fp16"};
  };
  static protocol::Params<Options> params();
  explicit Dgc(Options options) : Sparsifier(options.codecs), options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.sparse = true, .selects = true, .thins = true}; }
  WarmupLength warmup_length(const TrainingCourse& course) const override {
    return {.epochs = options_.warmup.length(course)};
  }
  double error_bound(std::uint64_t entries, const Round& round) const override;
  /// More than those of the dense tensor, where all entries would be sent: then there is nothing to choose.
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  Result<std::vector<device::Selecting>> begin_choice(std::span<const at::Tensor> gradients,
                                                      std::span<const Round> rounds) const override;
  Result<void> choose(const Values& values, const Round& round, Selection& out) override;
  std::optional<std::size_t> expected_count(std::uint64_t entries, const Round& round) const override;
  bool wants_dense(const Round& round) const override { return ratio(round) >= 1; }

 private:
  double ratio(const Round& round) const { return options_.warmup.ratio(options_.ratio, round); }
  /// The share of `entries` entries (at least one) that is sent.
  double share(std::uint64_t entries, const Round& round) const;
  /// Which value of a sample is the first threshold; nothing if entries are chosen without.
  std::optional<SampledRank> first_threshold(std::uint64_t entries, const Round& round) const;
  Result<void> adapt(const Values& values, const SampledRank& first, std::size_t kept, Selection& out) const;

  Options options_;
};

}  // namespace weir::compressors
