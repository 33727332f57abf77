#pragma once

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/cut.hpp"
#include "cuda/kernels/random.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// As the twin of the same name (compressors/kernels/selection/sample.hpp). The last value lies within the tensor.
struct StridedSample {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
  std::uint64_t count = 0;
};

/// A tensor for sampled_cuts(): of its sample, whose values are no fewer than `rank`, which is at least 1.
struct SampledCut {
  const float* values = nullptr;
  StridedSample sample;
  std::uint64_t rank = 1;
  Cut* cut = nullptr;
};

/// Twin of sampled_cut(), of several tensors: `cut->magnitude` is its result, and `cut->ties` is all. `sampled` is
/// scratch for the values of the largest sample, and `scratch` for a tensor of as many; neither is used if no sample
/// has more than small_cut_max values. All such samples are taken by one launch, others one after the other. Per
/// sampled value: one sector of 32 bytes read; of larger samples also 4 bytes written, and what find_cut() does.
Result<void> sampled_cuts(std::span<const SampledCut> cuts, float* sampled, const CutScratch& scratch,
                          StreamHandle stream);

/// Runs of neighbouring values: `length` values from 0, `distance`, 2 * distance, ... on, `count` runs, which lie
/// within the tensor.
struct SampledRuns {
  std::uint64_t length = 16;
  std::uint64_t distance = 16;
  std::uint64_t count = 0;
};

/// The sample from which SIDCo estimates a distribution (compressors/sparsifiers/sidco.cpp): |x| of each value of the
/// runs. It is at most 2^19 values, so the host can go on with them. Per sampled value: 4 bytes read, 4 written.
Result<void> sample_magnitudes(const float* values, const SampledRuns& runs, float* magnitudes, StreamHandle stream);

/// What is drawn: one entry of each of `count` strata of n entries, as compressors/sparsifiers/strata.hpp draws them.
struct Draw {
  RandomKey key;
  std::uint64_t n = 0;
  std::uint64_t count = 0;   ///< 1 <= count <= n
  bool is_unbiased = false;  ///< each value is multiplied by the length of its stratum
};

/// Writes the value of each entry drawn, as RandomK does: one beyond the largest float becomes that. `report->largest`
/// is raised to the magnitudes of the values as they were. Per entry drawn: one sector of 32 bytes read, 4 written.
Result<void> draw(const float* values, const Draw& what, float* drawn, Report* report, StreamHandle stream);

}  // namespace weir::cuda
