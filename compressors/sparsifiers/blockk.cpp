#include "compressors/sparsifiers/blockk.hpp"

#include <algorithm>
#include <bit>

#include "base/errc.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sparsifiers/codec_params.hpp"

namespace weir::compressors {
nlohmann::json BlockK::default_memory_params() { return {{"beta", 0.998}}; }

protocol::Params<BlockK::Options> BlockK::params() {
  return with_codecs(
      protocol::Params<Options>()
          .integer("block", &Options::block, {.minimum = 64.0, .maximum = 65536.0}, "Entries of a block.")
          .integer("per_block", &Options::per_block, {.minimum = 1.0, .maximum = 65536.0},
                   "Entries of each block that are sent; not more than it has."));
}

Result<std::unique_ptr<Compressor>> BlockK::make(Options options) {
  if (options.per_block > options.block) {
    return Error(Errc::invalid_argument, "blockk: per_block is " + std::to_string(options.per_block) +
                                             ", but a block has only " + std::to_string(options.block) + " entries");
  }
  return std::make_unique<BlockK>(std::move(options));
}

double BlockK::error_bound(std::uint64_t entries, const Round&) const {
  if (entries == 0) return 0;
  const auto block = static_cast<double>(std::min(entries, static_cast<std::uint64_t>(options_.block)));
  return bound_for_share(std::min(1.0, static_cast<double>(options_.per_block) / block));
}

std::optional<std::size_t> BlockK::expected_count(std::uint64_t entries, const Round&) const {
  const auto block = static_cast<std::uint64_t>(options_.block);
  const auto per_block = static_cast<std::uint64_t>(options_.per_block);
  return entries / block * per_block + std::min(entries % block, per_block);
}

Result<void> BlockK::choose(const Values& tensor, const Round& round, Selection& out) {
  const auto values = tensor.on_host();
  const auto block = static_cast<std::size_t>(options_.block);
  const auto per_block = static_cast<std::size_t>(options_.per_block);
  const auto choose_range = [&](std::size_t begin, std::size_t end, Selection& all) {
    // Neighbouring blocks are similar: a floor a little below the cut of the previous block leaves a few entries more
    // than wanted, and the cut is made among those. If that fails, it is made in the whole block: slower, with the same
    // result.
    std::uint32_t floor = 1;
    thread_local Selection found;  // kept between calls to reuse its memory
    for (std::size_t start = begin; start < end; start += block) {
      const auto part = values.subspan(start, std::min(block, end - start));
      const bool complete = collect(part, floor, floor > 1 ? 8 * per_block : part.size(), found);
      if (!complete || (found.size() < per_block && floor > 1)) (void)collect(part, 1, part.size(), found);
      if (find_non_finite(found.values) != found.size()) return false;
      if (found.size() > per_block) {
        const Cut cut = cut_at_rank(found.values, per_block);
        floor = std::max(magnitude(0.85F * std::bit_cast<float>(cut.magnitude)), 1U);
        trim(found, cut);
      } else {
        floor = 1;
      }
      for (const std::uint32_t position : found.positions) {
        all.positions.push_back(static_cast<std::uint32_t>(start) + position);
      }
      all.values.insert(all.values.end(), found.values.begin(), found.values.end());
    }
    return true;
  };
  if (!parallel_select(values.size(), block, out, choose_range)) return non_finite(round, values);
  return {};
}

}  // namespace weir::compressors
