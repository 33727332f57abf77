#include "cuda/kernels/blocks.hpp"

#include "base/ensure.hpp"
#include "cuda/kernels/each.cuh"
#include "cuda/kernels/look_back.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_lanes;

/// What the threads of a block share.
struct Shared {
  std::uint32_t counts[Bins::size];
  std::uint32_t of_warp[warps];
  std::uint32_t ties_of_warp[warps];
  unsigned long long block;
  std::uint32_t prefix;
  std::uint32_t rank;
  std::uint32_t before;
};

/// Sums over the warps before this one, and over all.
struct Sums {
  std::uint32_t before = 0;
  std::uint32_t all = 0;
};
__device__ Sums sums_of(const std::uint32_t* of_warps) {
  Sums sums;
  for (unsigned i = 0; i < warps; ++i) {
    if (i < threadIdx.x / warp_lanes) sums.before += of_warps[i];
    sums.all += of_warps[i];
  }
  return sums;
}

/// Finds the value of a digit from its counts: from above, the first that the rank is within. All threads of the block
/// call it, after a barrier and before one.
__device__ void choose(Shared* shared, unsigned bits) {
  constexpr unsigned own = Bins::size / threads;
  const unsigned highest = Bins::size - 1 - own * threadIdx.x;
  const std::uint32_t wanted = shared->rank;
  std::uint32_t sum = 0;
  for (unsigned k = 0; k < own; ++k) sum += shared->counts[highest - k];
  std::uint32_t up_to = sum;
  for (unsigned distance = 1; distance < warp_lanes; distance *= 2) {
    const std::uint32_t other = __shfl_up_sync(all_lanes, up_to, distance);
    if (lane_of_thread() >= distance) up_to += other;
  }
  if (lane_of_thread() == warp_lanes - 1) shared->of_warp[threadIdx.x / warp_lanes] = up_to;
  __syncthreads();
  std::uint32_t above = sums_of(shared->of_warp).before + up_to - sum;
  if (above >= wanted || wanted - above > sum) return;
  unsigned bin = highest;
  for (; wanted - above > shared->counts[bin]; --bin) above += shared->counts[bin];
  shared->prefix = shared->prefix << bits | bin;
  shared->rank = wanted - above;
}

/// Finds the cut that keeps `rank` of the entries, as cut_at_rank(). All threads of the block call it.
__device__ Cut cut_of_block(const float* values, std::uint32_t size, std::uint32_t rank, Shared* shared) {
  constexpr unsigned shifts[] = {20, 9, 0};  // digits of 11, 11 and 9 bits
  __syncthreads();
  if (threadIdx.x == 0) {
    shared->prefix = 0;
    shared->rank = rank;
  }
  unsigned above = 31;
  for (const unsigned shift : shifts) {
    for (unsigned bin = threadIdx.x; bin < Bins::size; bin += threads) shared->counts[bin] = 0;
    __syncthreads();
    const std::uint32_t prefix = shared->prefix;
    const std::uint32_t mask = (1U << (above - shift)) - 1;
    for (std::uint32_t i = threadIdx.x; i < size; i += threads) {
      const std::uint32_t key = magnitude(values[i]);
      if (key >> above == prefix) atomicAdd(&shared->counts[key >> shift & mask], 1U);
    }
    __syncthreads();
    choose(shared, above - shift);
    __syncthreads();
    above = shift;
  }
  return {shared->prefix, shared->rank};
}

template <class Division>
__global__ void select_of_blocks_kernel(const float* __restrict__ all_values, Division blocks, std::uint32_t of_block,
                                        Selection to, TileSum* sums, unsigned long long* next) {
  auto* const shared = shared_memory<Shared>();
  const unsigned warp = threadIdx.x / warp_lanes;
  const unsigned lanes_before = (1U << lane_of_thread()) - 1;
  for (;;) {
    if (threadIdx.x == 0) shared->block = atomicAdd(next, 1ULL);
    __syncthreads();
    const std::uint64_t block = shared->block;
    if (block >= blocks.count()) break;
    const BlockRange range = blocks.range(block);
    const std::uint64_t start = range.begin;
    const float* const values = all_values + start;
    const auto size = static_cast<std::uint32_t>(range.size);
    const std::uint32_t rank = of_block < size ? of_block : size;
    Cut cut = cut_of_block(values, size, rank, shared);
    std::uint32_t count = rank;
    if (cut.magnitude == 0) {  // the zeros are left out
      count = rank - cut.ties;
      cut.ties = 0;
    }
    if (warp == 0) {
      const std::uint32_t before = look_back(sums, block, count);
      if (lane_of_thread() == 0) shared->before = before;
      if (threadIdx.x == 0 && block + 1 == blocks.count()) *to.count = before + count;
    }
    __syncthreads();
    std::uint32_t place = shared->before;  // of what is above the cut; ties taken shift it
    std::uint32_t ties = 0;
    for (std::uint32_t base = 0; base < size; base += threads) {
      const std::uint32_t i = base + threadIdx.x;
      const float x = i < size ? values[i] : 0.0F;
      const bool is_above = magnitude(x) > cut.magnitude;
      const bool is_tie = i < size && magnitude(x) == cut.magnitude;
      const unsigned all_above = __ballot_sync(all_lanes, is_above);
      const unsigned all_ties = __ballot_sync(all_lanes, is_tie);
      if (lane_of_thread() == 0) {
        shared->of_warp[warp] = static_cast<std::uint32_t>(__popc(all_above));
        shared->ties_of_warp[warp] = static_cast<std::uint32_t>(__popc(all_ties));
      }
      __syncthreads();
      const Sums above_sums = sums_of(shared->of_warp);
      const Sums tie_sums = sums_of(shared->ties_of_warp);
      const std::uint32_t tie = ties + tie_sums.before + static_cast<std::uint32_t>(__popc(all_ties & lanes_before));
      const std::uint32_t at = place + above_sums.before +
                               static_cast<std::uint32_t>(__popc(all_above & lanes_before)) +
                               (tie < cut.ties ? tie : cut.ties);
      if ((is_above || (is_tie && tie < cut.ties)) && at < to.limit) {
        to.positions[at] = static_cast<std::uint32_t>(start + i);
        to.values[at] = x;
      }
      place += above_sums.all;
      ties += tie_sums.all;
      __syncthreads();
    }
  }
}

template <class Division>
Result<void> select(const float* values, const Division& blocks, std::uint64_t of_block, const Selection& to,
                    const BlockScratch& scratch, StreamHandle stream) {
  if (blocks.entries() == 0) return {};
  ensure(of_block >= 1 && of_block <= 65536, "entries of a block");
  ensure(blocks.entries() <= Cut::all, "entries that 32 bits count");
  const auto started =
      check(cudaMemsetAsync(scratch.at, 0, BlockScratch::bytes(blocks.count()), stream), "starting select_of_blocks");
  if (!started) return started;
  auto* const sums = reinterpret_cast<TileSum*>(scratch.at);
  const Shape shape = {.blocks = blocks_for(blocks.count()), .threads = threads, .shared_bytes = sizeof(Shared)};
  return launch("select_of_blocks", select_of_blocks_kernel<Division>, shape, stream, values, blocks,
                static_cast<std::uint32_t>(of_block), to, sums, sums + blocks.count());
}

}  // namespace

std::size_t BlockScratch::bytes(std::uint64_t count) { return (count + 1) * sizeof(TileSum); }

Result<void> select_of_blocks(const float* values, const Blocks& blocks, std::uint64_t of_block, const Selection& to,
                              const BlockScratch& scratch, StreamHandle stream) {
  ensure(blocks.length <= 65536, "a block's length");
  return select(values, blocks, of_block, to, scratch, stream);
}

Result<void> select_of_blocks(const float* coefficients, const BlockGrid& grid, std::uint64_t of_block,
                              const Selection& to, const BlockScratch& scratch, StreamHandle stream) {
  return select(coefficients, grid, of_block, to, scratch, stream);
}

}  // namespace weir::cuda
