#include "cuda/kernels/sample.hpp"

#include <vector>

#include "base/ensure.hpp"
#include "cuda/kernels/each.cuh"
#include "cuda/kernels/random.cuh"

namespace weir::cuda {
namespace {

__global__ void gather_kernel(const float* __restrict__ values, StridedSample sample, float* __restrict__ sampled) {
  for_each_tile(
      sample.count, 0.0F, [&](std::uint64_t i) { return values[sample.first + i * sample.stride]; },
      [&](std::uint64_t i, float value, bool is_entry) {
        if (is_entry) sampled[i] = value;
      });
}

/// Makes a cut select all entries equal to it.
__global__ void take_ties_kernel(Cut* cut) { cut->ties = Cut::all; }

__global__ void sample_magnitudes_kernel(const float* __restrict__ values, SampledRuns runs,
                                         float* __restrict__ magnitudes) {
  for_each_tile(
      runs.count * runs.length, 0.0F,
      [&](std::uint64_t i) { return values[i / runs.length * runs.distance + i % runs.length]; },
      [&](std::uint64_t i, float value, bool is_entry) {
        if (is_entry) magnitudes[i] = __uint_as_float(magnitude(value));
      });
}

struct Drawn {
  std::uint32_t position = 0;
  std::uint32_t length = 0;  ///< of the stratum
};

/// Stratum i begins at floor(i * n / count). The products fit 64 bits, because n and i have 32.
__device__ Drawn drawn_of(const Draw& what, std::uint64_t i) {
  const std::uint64_t start = i * what.n / what.count;
  const std::uint64_t length = (i + 1) * what.n / what.count - start;
  const std::uint64_t word = random_word(what.key, i);
  return {static_cast<std::uint32_t>(start + (word * length >> 32)), static_cast<std::uint32_t>(length)};
}

__global__ void draw_kernel(const float* __restrict__ values, Draw what, float* __restrict__ drawn, Report* report) {
  struct Entry {
    std::uint32_t length;
    float value;
  };
  constexpr float largest_float = 0x1.FFFFFEp127F;
  NoteLargest note{report};
  for_each_tile(
      what.count, Entry{},
      [&](std::uint64_t i) {
        const Drawn from = drawn_of(what, i);
        return Entry{from.length, values[from.position]};
      },
      [&](std::uint64_t i, const Entry& it, bool is_entry) {
        if (!is_entry) return;
        note(it.value);
        float value = it.value;
        if (what.is_unbiased) value *= static_cast<float>(it.length);
        value = value < -largest_float ? -largest_float : value > largest_float ? largest_float : value;
        drawn[i] = value;
      });
  note.end();
}

}  // namespace

Result<void> sampled_cuts(std::span<const SampledCut> cuts, float* sampled, const CutScratch& scratch,
                          StreamHandle stream) {
  std::vector<SmallCut> small;
  for (const auto& [values, sample, rank, cut] : cuts) {
    if (sample.count > small_cut_max) continue;
    small.push_back({.values = values + sample.first,
                     .stride = sample.stride,
                     .n = sample.count,
                     .rank = rank,
                     .takes_ties = true,
                     .cut = cut});
  }
  auto done = find_small_cuts(small, stream);
  for (const auto& [values, sample, rank, cut] : cuts) {
    if (sample.count <= small_cut_max) continue;
    if (done) {
      done = launch("sampled_cuts", gather_kernel, shape_for_each(sample.count), stream, values, sample, sampled);
    }
    if (done) {
      done = find_cut(sampled, sample.count, {.rank = rank, .kind = Rank::Kind::exact}, nullptr, scratch, cut, stream);
    }
    if (done) done = launch("sampled_cuts (ties)", take_ties_kernel, {.blocks = 1, .threads = 1}, stream, cut);
  }
  return done;
}

Result<void> sample_magnitudes(const float* values, const SampledRuns& runs, float* magnitudes, StreamHandle stream) {
  if (runs.count == 0) return {};
  return launch("sample_magnitudes", sample_magnitudes_kernel, shape_for_each(runs.count * runs.length), stream, values,
                runs, magnitudes);
}

Result<void> draw(const float* values, const Draw& what, float* drawn, Report* report, StreamHandle stream) {
  if (what.count == 0) return {};
  ensure(what.count <= what.n && what.n <= Cut::all, "strata of entries that 32 bits count");
  return launch("draw", draw_kernel, shape_for_each(what.count), stream, values, what, drawn, report);
}

}  // namespace weir::cuda
