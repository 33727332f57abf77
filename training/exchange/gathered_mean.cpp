#include "training/exchange/gathered_mean.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "compressors/flat.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::training {
namespace {

/// Payloads with fewer bytes than this together are read and added on the calling thread, in a few milliseconds. Other
/// threads, which sleep and may have to wait for a core, take that long to begin.
constexpr std::size_t bytes_for_threads = 4 << 20;

/// Adding to an entry somewhere in a tensor is as much work as reading this many entries of a tensor.
constexpr std::size_t adding_work = 4;

}  // namespace

Result<void> GatheredMean::add(compressors::Compressor& compressor, const Payloads& payloads, Mean& mean) {
  if (!compressor.traits().sparse) {
    return compressor.decode_add_ranks(payloads.of_ranks, payloads.round, payloads.share, mean.tensor);
  }
  ranks_.resize(payloads.of_ranks.size());
  if (auto done = read(compressor, payloads, static_cast<std::uint64_t>(mean.tensor.numel()), ranks_); !done) {
    return done;
  }
  add_entries(payloads.share, mean);
  return {};
}

void GatheredMean::begin() {
  for_means_.clear();
  waiting_.clear();
}

Result<void> GatheredMean::read_for(compressors::Compressor& compressor, const Payloads& payloads, Mean& mean) {
  if (!compressor.traits().sparse) {
    compressors::Round round = payloads.round;
    for (round.rank = 0; round.rank < payloads.of_ranks.size(); ++round.rank) {
      auto read =
          compressor.decode_add_later(payloads.of_ranks[round.rank], round, payloads.share, mean.tensor, waiting_);
      if (!read) return read.error().within("rank " + std::to_string(round.rank));
    }
    return {};
  }
  const std::size_t before = for_means_.size();
  if (read_.size() == before) read_.emplace_back();
  std::vector<Entries>& ranks = read_[before];
  ranks.resize(payloads.of_ranks.size());
  auto done = read(compressor, payloads, static_cast<std::uint64_t>(mean.tensor.numel()), ranks);
  if (!done) return done;
  EntriesForMean& entries = for_means_.emplace_back(std::vector<const compressors::Selection*>(), &mean);
  for (const Entries& rank : ranks) entries.selections.push_back(rank.all);
  return {};
}

Result<void> GatheredMean::add_read(compressors::Compressor& compressor, float share) {
  if (auto added = add_there(share, for_means_); !added) return added;
  return compressor.decode_add_all(std::exchange(waiting_, {}));
}

Result<void> GatheredMean::read(const compressors::Compressor& compressor, const Payloads& payloads,
                                std::uint64_t entries, std::span<Entries> ranks) {
  const std::size_t count = payloads.of_ranks.size();
  std::size_t bytes = 0;
  for (const BytesView payload : payloads.of_ranks) bytes += payload.size();
  on_threads_ = bytes >= bytes_for_threads;
  // A payload has about coding_work bytes for each of its entries, and reading one is as much work as that.
  compressors::parallel_for_parts(count, on_threads_ ? bytes / count : 0, [&](std::size_t rank) {
    Entries& of_rank = ranks[rank];
    compressors::Round round = payloads.round;
    const bool own = rank == round.rank && payloads.sent != nullptr;
    round.rank = static_cast<std::uint32_t>(rank);
    of_rank.all = own ? payloads.sent : &of_rank.read;
    of_rank.result =
        own ? Result<void>() : compressor.read_entries(payloads.of_ranks[rank], round, entries, of_rank.read);
  });
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto& result = ranks[rank].result;
    if (!result) return result.error().within("rank " + std::to_string(rank));
  }
  return {};
}

void GatheredMean::add_entries(float share, Mean& mean) {
  std::size_t total = 0;
  for (const Entries& rank : ranks_) total += rank.all->size();
  if (mean.sparse) mean.positions.resize(total);
  const auto size = static_cast<std::uint64_t>(mean.tensor.numel());
  const auto parts = on_threads_ ? static_cast<std::uint64_t>(at::get_num_threads()) : 1;
  compressors::parallel_for_parts(parts, adding_work * total / parts, [&](std::size_t part) {
    add_range(share, size * part / parts, size * (part + 1) / parts, mean);
  });
}

/// Adds the entries of all ranks from position `begin` to `end`, rank by rank.
void GatheredMean::add_range(float share, std::uint64_t begin, std::uint64_t end, Mean& mean) const {
  const auto to = compressors::flat(mean.tensor);
  const auto before = [](const Entries& rank, std::uint64_t position) {
    return std::ranges::lower_bound(rank.all->positions, position) - rank.all->positions.begin();
  };
  auto noted = mean.positions.begin();
  if (mean.sparse) {
    for (const Entries& rank : ranks_) noted += before(rank, begin);
  }
  for (const Entries& rank : ranks_) {
    const auto first = static_cast<std::size_t>(before(rank, begin));
    const auto count = static_cast<std::size_t>(before(rank, end)) - first;
    const auto here = std::span(rank.all->positions).subspan(first, count);
    compressors::add_selection(share, here, std::span(rank.all->values).subspan(first, count), to);
    if (mean.sparse) noted = std::ranges::copy(here, noted).out;
  }
}

}  // namespace weir::training
