#pragma once

#include "compressors/sparsifiers/sparsifier.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Keeps the ceil(ratio * n) entries of largest magnitude, exactly; among equals, the first (Aji & Heafield
/// 2017). Zeros are not sent. Biased: pair it with a memory. Steps: all-gather.
class TopK final : public Sparsifier {
 public:
  static constexpr std::string_view type_name = "topk";
  static constexpr std::string_view summary = "The entries of largest magnitude, exactly; the rest waits.";
  static constexpr std::string_view default_memory = "residual";

  struct Options {
    double ratio = 0.001;
    SparseCodecs codecs = {};
  };
  static protocol::Params<Options> params();
  explicit TopK(Options options) : Sparsifier(options.codecs), options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.sparse = true, .selects = true, .thins = true}; }
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Result<std::vector<device::Selecting>> begin_choice(std::span<const at::Tensor> gradients,
                                                      std::span<const Round> rounds) const override;
  Result<void> choose(const Values& values, const Round& round, Selection& out) override;
  std::optional<std::size_t> expected_count(std::uint64_t entries, const Round&) const override {
    return entries_kept(options_.ratio, entries);
  }

 private:
  Options options_;
};

}  // namespace weir::compressors
