#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compressors/sparsifiers/sparsifier.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// The largest entries of each block, by default 64 of 4096, with 12-bit positions and 2-bit values, as in SparseLoCo
/// (Sarfi et al. 2025). Every part of a tensor gets its share, and blocks are independent of each other. Among equal
/// entries the first of the block are sent; zeros are not sent. Body: codecs/sparse.hpp. Biased: its memory is a
/// residual that decays. SparseLoCo's decay is 0.95 per synchronisation, and these are about 30 steps apart: 0.998 per
/// step. An entry waits block / per_block = 64 steps on average, after which a decay of 0.998 leaves 88 % of the
/// residual; 0.95 per step would leave 4 %. Steps: all-gather.
class BlockK final : public Sparsifier {
 public:
  static constexpr std::string_view type_name = "blockk";
  static constexpr std::string_view summary = "The largest entries of each block, with 2-bit values (SparseLoCo).";
  static constexpr std::string_view default_memory = "residual";
  static nlohmann::json default_memory_params();

  struct Options {
    std::int64_t block = 4096;
    std::int64_t per_block = 64;
    SparseCodecs codecs = {.index = "block", .value = "int2"};
  };
  static protocol::Params<Options> params();
  explicit BlockK(Options options) : Sparsifier(options.codecs), options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.sparse = true, .selects = true}; }
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Result<void> choose(const Values& values, const Round& round, Selection& out) override;
  std::optional<std::size_t> expected_count(std::uint64_t entries, const Round& round) const override;

 private:
  Options options_;
};

}  // namespace weir::compressors
