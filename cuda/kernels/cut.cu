#include "cuda/kernels/cut.hpp"

#include "base/ensure.hpp"
#include "cuda/kernels/each.cuh"

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

/// One block. Finds the value of a digit from its counts: from above, the first that the rank is within.
__global__ void choose_kernel(Search* search, const Bins* bins, unsigned digit, std::uint32_t rank, Rank::Kind kind,
                              std::uint32_t room, Cut* cut) {
  if (digit > 0 && search->is_done != 0) return;
  const std::uint32_t wanted = digit == 0 ? rank : search->rank;
  const std::uint32_t prefix = digit == 0 ? 0 : search->prefix;
  constexpr unsigned own = Bins::size / each_threads;
  const unsigned highest = Bins::size - 1 - own * threadIdx.x;
  std::uint32_t sum = 0;
  for (unsigned k = 0; k < own; ++k) sum += bins->counts[highest - k];
  std::uint32_t above = sum_before(sum, shared_memory<std::uint32_t>()).before;
  __syncthreads();  // all have read the search
  if (above >= wanted || wanted - above > sum) return;
  unsigned bin = highest;
  for (; wanted - above > bins->counts[bin]; --bin) above += bins->counts[bin];
  const std::uint32_t among = bins->counts[bin];
  const unsigned bits = digit + 1 == digits ? shift_of(digit - 1) : Bins::bits;
  search->prefix = prefix << bits | bin;
  search->rank = wanted - above;
  const bool takes_all = kind == Rank::Kind::rough || (kind == Rank::Kind::same_entries && among == wanted - above);
  search->is_done = takes_all || digit + 1 == digits;
  if (digit == 0) search->is_kept = among <= room;
  if (search->is_done != 0) *cut = {search->prefix << shift_of(digit), takes_all ? Cut::all : wanted - above};
}

__global__ void count_kernel(const float* __restrict__ values, std::uint64_t n, Bins* bins) {
  NoteBins note{bins};
  note.begin();
  for_each_tile(
      n, 0.0F, [&](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t, float value, bool is_entry) {
        if (is_entry) note(value);
      });
  note.end();
}

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

}  // namespace

std::size_t CutScratch::bytes(std::uint64_t n) { return sizeof(Search) + room_for_kept(n) * sizeof(std::uint32_t); }

Result<void> find_cut(const float* values, std::uint64_t n, const Rank& rank, const Bins* bins,
                      const CutScratch& scratch, Cut* cut, StreamHandle stream) {
  ensure(rank.rank >= 1 && rank.rank <= n && n <= Cut::all, "a rank within the values, which 32 bits count");
  auto* const search = reinterpret_cast<Search*>(scratch.at);
  auto* const kept = reinterpret_cast<std::uint32_t*>(scratch.at + sizeof(Search));
  const auto room = static_cast<std::uint32_t>(room_for_kept(n));
  const Shape shape = shape_for_each(n, within_shared_bytes);
  const Shape one = {.blocks = 1, .threads = each_threads, .shared_bytes = each_threads / warp_lanes * 4};
  auto done = check(cudaMemsetAsync(search, 0, sizeof(Search), stream), "starting to look for a cut");
  const auto choose = [&](const Bins* counts, unsigned digit) {
    if (!done) return;
    done = launch("find_cut (choose)", choose_kernel, one, stream, search, counts, digit,
                  static_cast<std::uint32_t>(rank.rank), rank.kind, room, cut);
  };
  if (done && bins == nullptr) {
    done = launch("find_cut (first digit)", count_kernel, shape, stream, values, n, &search->bins[0]);
  }
  choose(bins != nullptr ? bins : &search->bins[0], 0);
  if (rank.kind == Rank::Kind::rough) return done;
  if (done) {
    done = launch("find_cut (second digit)", count_within_kernel<1>, shape, stream, values, n, search, kept);
  }
  choose(&search->bins[1], 1);
  if (done) done = launch("find_cut (third digit)", count_within_kernel<2>, shape, stream, values, n, search, kept);
  choose(&search->bins[2], 2);
  return done;
}

}  // namespace weir::cuda
