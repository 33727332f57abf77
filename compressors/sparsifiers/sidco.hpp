#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compressors/per_tensor.hpp"
#include "compressors/sparsifiers/sparsifier.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Sends the entries above a threshold that is computed from a distribution fitted to the magnitudes (Abdelmoniem et
/// al., MLSys 2021). The fit has few parameters and takes a sum or two instead of sorting:
///
///     exponential  mean m:            m ln(1/r)                        for a share r of the entries
///     gamma        shape a, scale b:  -b (ln r + ln Gamma(a)), a from the logarithms of m and of the entries
///     pareto       shape a, scale b:  b/a (r^-a - 1), from mean and variance (generalized Pareto)
///
/// The fit has several stages: the first aims at `first_ratio` of the entries, the next fits the exceedances over that
/// threshold, and so on for the rest of `ratio`. Each stage counts how many entries really exceed its threshold. After
/// a gamma stage the exceedances are fitted as pareto. Each tensor starts with one stage. Every `adapt_every` rounds,
/// if their mean count is further from ratio * n than the share `tolerance` of it, the number of stages changes by one:
/// in the direction that brought an improvement, first upwards.
///
/// A tensor of more than 2^18 entries is fitted on a sample: runs of 16 entries at a regular distance. A tensor that is
/// not all zero always sends something: if the threshold is above every entry, the threshold of the largest number of
/// stages is tried, and then the ceil(ratio * n) largest entries are sent. Body: codecs/sparse.hpp. Biased: pair it
/// with a memory. Steps: all-gather.
class Sidco final : public Sparsifier {
 public:
  static constexpr std::string_view type_name = "sidco";
  static constexpr std::string_view summary = "The largest entries, by a threshold from a fitted distribution.";
  static constexpr std::string_view default_memory = "residual";

  struct Options {
    double ratio = 0.001;
    std::string distribution = "exponential";
    double first_ratio = 0.25;
    std::int64_t adapt_every = 5;
    double tolerance = 0.2;
    SparseCodecs codecs = {};
  };
  static protocol::Params<Options> params();
  explicit Sidco(Options options) : Sparsifier(options.codecs), options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override {
    return {.sparse = true, .stateful = true, .begins_anew = true, .selects = true, .thins = true};
  }
  double error_bound(std::uint64_t entries, const Round& round) const override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

  /// The largest number of stages into which the ratio can be split.
  std::int64_t stages_max() const;

 protected:
  Result<void> choose(const Values& values, const Round& round, Selection& out) override;

 private:
  /// The state of a tensor. It is saved as a tensor of these five numbers, in this order, in double precision.
  struct Stages {
    std::int64_t count = 1;
    std::int64_t direction = 1;  ///< 1 if the next change adds a stage, -1 if it drops one
    std::int64_t rounds = 0;     ///< since the last check
    double achieved = 0;         ///< sum over these rounds of entries sent / entries wanted
    double distance = 0;         ///< |ln(achieved / wanted)| at the last check that changed the stages, 0 before one
  };

  Result<double> threshold(const Values& values, std::int64_t stages);
  /// Collects what reaches the threshold of so many stages.
  Result<void> collect(const Values& values, std::int64_t stages, Selection& out);
  void adapt(Stages& stages, double achieved) const;

  Options options_;
  PerTensor<Stages> stages_;
  std::vector<float> sample_;  // kept between calls to reuse its memory
};

}  // namespace weir::compressors
