#include "training/exchange/gathered_mean.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

#include "compressors/flat.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::training {
namespace {

/// A thread adds all ranks to this many entries of the mean before it goes on to the next: they stay in its cache.
constexpr std::uint64_t block_entries = 1 << 16;

/// Adding to an entry somewhere in a tensor is as much work as reading this many entries of a tensor.
constexpr std::size_t adding_work = 4;

}  // namespace

Result<void> GatheredMean::add(compressors::Compressor& compressor, const Payloads& payloads, Mean& mean) {
  if (!compressor.traits().sparse) {
    return compressor.decode_add_ranks(payloads.of_ranks, payloads.round, payloads.share, mean.tensor);
  }
  if (auto done = read(compressor, payloads, static_cast<std::uint64_t>(mean.tensor.numel())); !done) return done;
  add_entries(payloads.share, mean);
  return {};
}

Result<void> GatheredMean::read(const compressors::Compressor& compressor, const Payloads& payloads,
                                std::uint64_t entries) {
  const std::size_t count = payloads.of_ranks.size();
  ranks_.resize(count);
  std::size_t bytes = 0;
  for (const BytesView payload : payloads.of_ranks) bytes += payload.size();
  // A payload has about coding_work bytes for each of its entries, and reading one is as much work as that.
  compressors::parallel_for_parts(count, count == 0 ? 0 : bytes / count, [&](std::size_t rank) {
    Entries& of_rank = ranks_[rank];
    compressors::Round round = payloads.round;
    const bool own = rank == round.rank && payloads.sent != nullptr;
    round.rank = static_cast<std::uint32_t>(rank);
    of_rank.all = own ? payloads.sent : &of_rank.read;
    of_rank.result =
        own ? Result<void>() : compressor.read_entries(payloads.of_ranks[rank], round, entries, of_rank.read);
  });
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto& result = ranks_[rank].result;
    if (!result) return result.error().within("rank " + std::to_string(rank));
  }
  return {};
}

void GatheredMean::add_entries(float share, Mean& mean) {
  std::size_t total = 0;
  for (const Entries& rank : ranks_) total += rank.all->size();
  if (mean.sparse) mean.positions.resize(total);
  const auto blocks = (static_cast<std::uint64_t>(mean.tensor.numel()) + block_entries - 1) / block_entries;
  const auto parts = std::min(static_cast<std::uint64_t>(at::get_num_threads()), std::max<std::uint64_t>(blocks, 1));
  next_.resize(parts * ranks_.size());
  compressors::parallel_for_parts(parts, adding_work * total / parts, [&](std::size_t part) {
    add_range(share, blocks * part / parts * block_entries, blocks * (part + 1) / parts * block_entries,
              std::span(next_).subspan(part * ranks_.size(), ranks_.size()), mean);
  });
}

/// Adds the entries of all ranks from position `begin` to `end`. `next`: room for a number for each rank.
void GatheredMean::add_range(float share, std::uint64_t begin, std::uint64_t end, std::span<std::size_t> next,
                             Mean& mean) const {
  const auto to = compressors::flat(mean.tensor);
  const auto first_from = [](const compressors::Selection& entries, std::uint64_t position) {
    const auto at = std::ranges::lower_bound(entries.positions, position);
    return static_cast<std::size_t>(at - entries.positions.begin());
  };
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) next[rank] = first_from(*ranks_[rank].all, begin);
  auto noted = mean.positions.begin();
  if (mean.sparse) noted += std::accumulate(next.begin(), next.end(), std::ptrdiff_t{0});
  for (std::uint64_t block_end = begin + block_entries; block_end <= end; block_end += block_entries) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& [positions, values] = *ranks_[rank].all;
      const std::size_t from = next[rank];
      std::size_t until = from;
      while (until < positions.size() && positions[until] < block_end) ++until;
      next[rank] = until;
      const auto here = std::span(positions).subspan(from, until - from);
      compressors::add_selection(share, here, std::span(values).subspan(from, until - from), to);
      if (mean.sparse) noted = std::ranges::copy(here, noted).out;
    }
  }
}

}  // namespace weir::training
