#include "compressors/sparsifiers/blockk.hpp"

#include <algorithm>

#include "compressors/non_finite.hpp"
#include "compressors/sparsifiers/codec_params.hpp"

namespace weir::compressors {
nlohmann::json BlockK::default_memory_params() { return {{"beta", 0.998}}; }

protocol::Params<BlockK::Options> BlockK::params() {
  return with_codecs(
      protocol::Params<Options>()
          .integer("block", &Options::block, {.minimum = 64.0, .maximum = 65536.0}, "Entries of a block.")
          .integer("per_block", &Options::per_block, {.minimum = 1.0, .maximum = 65536.0},
                   "Entries of each block that are sent; not more than it has.")
          .at_most("per_block", "block"));
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

Result<void> BlockK::choose(const Values& values, const Round& round, Selection& out) {
  auto done = values.select_of_blocks(static_cast<std::size_t>(options_.block),
                                      static_cast<std::size_t>(options_.per_block), out);
  if (!done) return done;
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values.first_non_finite());
  return {};
}

}  // namespace weir::compressors
