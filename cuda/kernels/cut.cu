#include "cuda/kernels/cut.hpp"

#include <algorithm>

#include "base/ensure.hpp"
#include "cuda/kernels/batch.cuh"

namespace weir::cuda {
namespace {

/// The digits of a magnitude's 31 bits, from above: 11, 11 and 9 bits.
constexpr unsigned digits = 3;
__device__ constexpr unsigned shift_of(unsigned digit) { return digit == 0 ? 20 : digit == 1 ? 9 : 0; }

/// What is known so far.
struct Search {
  Bins bins[digits];
  std::uint32_t prefix;   ///< the digits so far of the entry of this rank
  std::uint32_t rank;     ///< its rank among those with the same digits
  std::uint32_t is_done;  ///< the cut is found
  std::uint32_t is_kept;  ///< the entries with the first digit are kept aside
  std::uint32_t kept;     ///< how many
};

std::uint64_t room_for_kept(std::uint64_t n) { return n / 8; }

/// The sum over the threads before this one, and over all, of a block of each_threads. `sums` is shared, a number for
/// each warp; the block has to meet before they are used again.
struct Before {
  std::uint32_t before = 0;
  std::uint32_t all = 0;
};
__device__ Before sum_before(std::uint32_t own, std::uint32_t* sums) {
  const unsigned warp = threadIdx.x / warp_lanes;
  std::uint32_t sum = own;
  for (unsigned distance = 1; distance < warp_lanes; distance *= 2) {
    const std::uint32_t other = __shfl_up_sync(all_lanes, sum, distance);
    if (lane_of_thread() >= distance) sum += other;
  }
  if (lane_of_thread() == warp_lanes - 1) sums[warp] = sum;
  __syncthreads();
  Before result{sum - own, 0};
  for (unsigned i = 0; i < each_threads / warp_lanes; ++i) {
    if (i < warp) result.before += sums[i];
    result.all += sums[i];
  }
  return result;
}

/// Where a rank comes to lie among counted digits.
struct InBin {
  unsigned bin = Bins::size;  ///< of the thread that has found it; else Bins::size
  std::uint32_t rank = 0;     ///< within the bin
  std::uint32_t among = 0;    ///< how many are in it
};

/// From above, the first digit that the rank is within. For a block of each_threads; `sums` as for sum_before().
__device__ InBin find_bin(const Bins* bins, std::uint32_t rank, std::uint32_t* sums) {
  constexpr unsigned own = Bins::size / each_threads;
  const unsigned highest = Bins::size - 1 - own * threadIdx.x;
  std::uint32_t sum = 0;
  for (unsigned k = 0; k < own; ++k) sum += bins->counts[highest - k];
  std::uint32_t above = sum_before(sum, sums).before;
  if (above >= rank || rank - above > sum) return {};
  unsigned bin = highest;
  for (; rank - above > bins->counts[bin]; --bin) above += bins->counts[bin];
  return {bin, rank - above, bins->counts[bin]};
}

/// One block. Finds the value of a digit from its counts.
__global__ void choose_kernel(Search* search, const Bins* bins, unsigned digit, std::uint32_t rank, Rank::Kind kind,
                              std::uint32_t room, Cut* cut) {
  if (digit > 0 && search->is_done != 0) return;
  const std::uint32_t wanted = digit == 0 ? rank : search->rank;
  const std::uint32_t prefix = digit == 0 ? 0 : search->prefix;
  const InBin found = find_bin(bins, wanted, shared_memory<std::uint32_t>());
  __syncthreads();  // all have read the search
  if (found.bin == Bins::size) return;
  const unsigned bits = digit + 1 == digits ? shift_of(digit - 1) : Bins::bits;
  search->prefix = prefix << bits | found.bin;
  search->rank = found.rank;
  const bool takes_all = kind == Rank::Kind::same_entries && found.among == found.rank;
  search->is_done = takes_all || digit + 1 == digits;
  if (digit == 0) search->is_kept = found.among <= room;
  if (search->is_done != 0) *cut = {search->prefix << shift_of(digit), takes_all ? Cut::all : found.rank};
}

/// A block for each cut.
__global__ void rough_cuts_kernel(Batch<RoughCut> batch) {
  const RoughCut& of = batch.of[blockIdx.x];
  const InBin found = find_bin(of.bins, static_cast<std::uint32_t>(of.rank), shared_memory<std::uint32_t>());
  if (found.bin < Bins::size) *of.cut = {found.bin << shift_of(0), Cut::all};
}

/// A loop that does nothing but to note.
struct Count {
  using Loaded = float;
  __device__ static float load(const Counted& of, std::uint64_t i) { return of.values[i]; }
  __device__ static float store(const Counted&, std::uint64_t, float value) { return value; }
};

constexpr Shape shape_of_choices = {
    .blocks = 1, .threads = each_threads, .shared_bytes = each_threads / warp_lanes * sizeof(std::uint32_t)};

constexpr std::size_t within_shared_bytes = sizeof(Bins) + (each_threads / warp_lanes + 1) * sizeof(std::uint32_t);

/// Counts a further digit of the entries that have the digits so far. Keeps them aside, or reads what was.
template <unsigned digit>
__global__ void count_within_kernel(const float* __restrict__ values, std::uint64_t n, Search* search,
                                    std::uint32_t* kept) {
  if (search->is_done != 0) return;
  constexpr unsigned above = shift_of(digit - 1);
  constexpr unsigned shift = shift_of(digit);
  const std::uint32_t prefix = search->prefix;
  const bool keeps = digit == 1 && search->is_kept != 0;
  const bool reads_kept = digit == 2 && search->is_kept != 0;
  const std::uint64_t size = reads_kept ? search->kept : n;
  auto* const counts = shared_memory<std::uint32_t>();
  std::uint32_t* const sums = counts + Bins::size;
  std::uint32_t* const start_of_tile = sums + each_threads / warp_lanes;
  clear_shared_bins();
  for (std::uint64_t start = std::uint64_t{blockIdx.x} * each_tile; start < size;
       start += std::uint64_t{gridDim.x} * each_tile) {
    std::uint32_t keys[each_unroll];
    bool is_within[each_unroll];
#pragma unroll
    for (unsigned k = 0; k < each_unroll; ++k) {
      const std::uint64_t i = start + k * each_threads + threadIdx.x;
      keys[k] = i >= size ? 0 : reads_kept ? kept[i] : magnitude(values[i]);
      is_within[k] = i < size && keys[k] >> above == prefix;
    }
    std::uint32_t own = 0;
#pragma unroll
    for (unsigned k = 0; k < each_unroll; ++k) {
      if (is_within[k]) atomicAdd(&counts[keys[k] >> shift & ((1U << (above - shift)) - 1)], 1U);
      own += is_within[k];
    }
    if (!keeps) continue;
    // In any order: they are only counted again.
    const Before found = sum_before(own, sums);
    if (threadIdx.x == 0 && found.all > 0) *start_of_tile = atomicAdd(&search->kept, found.all);
    __syncthreads();
    if (own == 0) continue;
    std::uint32_t* to = kept + *start_of_tile + found.before;
#pragma unroll
    for (unsigned k = 0; k < each_unroll; ++k) {
      if (is_within[k]) *to++ = keys[k];
    }
  }
  add_shared_bins(&search->bins[digit]);
}

// The cut of few values, which the threads of one block hold in registers: the largest magnitude that is reached often
// enough, found bit by bit from above.

/// What they share: a number of each warp, twice, so that the block meets once in a round.
using WarpCounts = std::uint32_t[2][warp_lanes];

constexpr unsigned small_threads = 1024;  // at most
constexpr unsigned small_together = 8;
constexpr unsigned small_groups = 4;
static_assert(small_cut_max == std::uint64_t{small_threads} * small_together * small_groups);

/// The sum over all threads of the block, of which each gets it. `round` alternates between 0 and 1.
__device__ std::uint32_t sum_of_block(std::uint32_t own, unsigned round, WarpCounts& counts) {
  const std::uint32_t of_warp = __reduce_add_sync(all_lanes, own);
  if (lane_of_thread() == 0) counts[round][threadIdx.x / warp_lanes] = of_warp;
  __syncthreads();
  const unsigned lane = lane_of_thread();
  return __reduce_add_sync(all_lanes, lane < blockDim.x / warp_lanes ? counts[round][lane] : 0);
}

/// A block for each cut.
__global__ void __launch_bounds__(small_threads, 1) small_cuts_kernel(Batch<SmallCut> batch) {
  const SmallCut& of = batch.of[blockIdx.x];
  const auto n = static_cast<unsigned>(of.n);
  const auto rank = static_cast<std::uint32_t>(of.rank);
  auto& counts = *shared_memory<WarpCounts>();
  std::uint32_t keys[small_groups][small_together];
#pragma unroll
  for (unsigned g = 0; g < small_groups; ++g) {
#pragma unroll
    for (unsigned k = 0; k < small_together; ++k) {
      const unsigned i = (g * small_together + k) * blockDim.x + threadIdx.x;
      keys[g][k] = i < n ? magnitude(of.values[i * of.stride]) : 0;
    }
  }
  std::uint32_t found = 0;
  std::uint32_t above = 0;  // the keys that are larger than `found`, after the last bit
  for (unsigned bit = 31; bit-- > 0;) {
    const std::uint32_t higher = found | 1U << bit;
    std::uint32_t reached = 0;
#pragma unroll
    for (unsigned g = 0; g < small_groups; ++g) {
      if (g * small_together * blockDim.x >= n) break;
#pragma unroll
      for (unsigned k = 0; k < small_together; ++k) reached += keys[g][k] >= higher ? 1 : 0;
    }
    reached = sum_of_block(reached, bit % 2, counts);
    if (reached >= rank) {
      found = higher;
    } else {
      above = reached;
    }
  }
  if (threadIdx.x == 0) *of.cut = {found, of.takes_ties ? Cut::all : rank - above};
}

}  // namespace

std::size_t CutScratch::bytes(std::uint64_t n) { return sizeof(Search) + room_for_kept(n) * sizeof(std::uint32_t); }

Result<void> find_small_cuts(std::span<const SmallCut> cuts, StreamHandle stream) {
  std::uint64_t most = 0;
  for (const SmallCut& cut : cuts) {
    ensure(cut.rank >= 1 && cut.rank <= cut.n && cut.n <= small_cut_max, "a rank within few values");
    most = std::max(most, cut.n);
  }
  const std::uint64_t warps = (most + small_together * warp_lanes - 1) / (small_together * warp_lanes);
  const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(warps * warp_lanes, small_threads));
  return in_batches(
      cuts, [](const SmallCut&) { return 1; },
      [&](const Batch<SmallCut>& batch) {
        const Shape shape = {.blocks = batch.count, .threads = threads, .shared_bytes = sizeof(WarpCounts)};
        return launch("find_small_cuts", small_cuts_kernel, shape, stream, batch);
      });
}

Result<void> count_magnitudes(std::span<const Counted> tensors, StreamHandle stream) {
  return launch_each<Count, NoteBins>("count_magnitudes", tensors, stream);
}

Result<void> find_rough_cuts(std::span<const RoughCut> cuts, StreamHandle stream) {
  return in_batches(
      cuts, [](const RoughCut&) { return 1; },
      [&](const Batch<RoughCut>& batch) {
        Shape shape = shape_of_choices;
        shape.blocks = batch.count;
        return launch("find_rough_cuts", rough_cuts_kernel, shape, stream, batch);
      });
}

Result<void> find_cut(const float* values, std::uint64_t n, const Rank& rank, const Bins* bins,
                      const CutScratch& scratch, Cut* cut, StreamHandle stream) {
  if (n <= small_cut_max) {
    const SmallCut small{.values = values, .n = n, .rank = rank.rank, .cut = cut};
    return find_small_cuts(std::span(&small, 1), stream);
  }
  ensure(rank.rank >= 1 && rank.rank <= n && n <= Cut::all, "a rank within the values, which 32 bits count");
  auto* const search = reinterpret_cast<Search*>(scratch.at);
  auto* const kept = reinterpret_cast<std::uint32_t*>(scratch.at + sizeof(Search));
  const auto room = static_cast<std::uint32_t>(room_for_kept(n));
  const Shape shape = shape_for_each(n, within_shared_bytes);
  auto done = check(cudaMemsetAsync(search, 0, sizeof(Search), stream), "starting to look for a cut");
  const auto choose = [&](const Bins* counts, unsigned digit) {
    if (!done) return;
    done = launch("find_cut (choose)", choose_kernel, shape_of_choices, stream, search, counts, digit,
                  static_cast<std::uint32_t>(rank.rank), rank.kind, room, cut);
  };
  if (done && bins == nullptr) {
    const Counted counted{values, n, &search->bins[0]};
    done = count_magnitudes(std::span(&counted, 1), stream);
  }
  choose(bins != nullptr ? bins : &search->bins[0], 0);
  if (done) {
    done = launch("find_cut (second digit)", count_within_kernel<1>, shape, stream, values, n, search, kept);
  }
  choose(&search->bins[1], 1);
  if (done) done = launch("find_cut (third digit)", count_within_kernel<2>, shape, stream, values, n, search, kept);
  choose(&search->bins[2], 2);
  return done;
}

}  // namespace weir::cuda
