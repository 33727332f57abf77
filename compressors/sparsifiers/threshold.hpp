#pragma once

#include "compressors/sparsifiers/sparsifier.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Sends every entry whose magnitude reaches a fixed threshold, in the gradient's own units, however many those are
/// (Aji & Heafield 2017; Strom 2015). Zeros are not sent. Body: codecs/sparse.hpp. Biased, and not a contraction: a
/// gradient below the threshold sends nothing and arrives only with the help of a memory. Steps: all-gather.
class Threshold final : public Sparsifier {
 public:
  static constexpr std::string_view type_name = "threshold";
  static constexpr std::string_view summary = "Every entry of at least a fixed magnitude.";
  static constexpr std::string_view default_memory = "residual";

  struct Options {
    double threshold = 0.01;
    SparseCodecs codecs = {};
  };
  static protocol::Params<Options> params();
  explicit Threshold(Options options) : Sparsifier(options.codecs), options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.sparse = true, .selects = true, .thins = true}; }
  double error_bound(std::uint64_t entries, const Round&) const override { return entries == 0 ? 0 : 1; }

 protected:
  Result<void> choose(const Values& values, const Round& round, Selection& out) override;

 private:
  Options options_;
};

}  // namespace weir::compressors
