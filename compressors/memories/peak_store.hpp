#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/per_tensor.hpp"

namespace weir::compressors {

/// What a memory notes of the tensors of the model while it writes them: their Peaks (kernels/selection/selection.hpp)
/// on the processor, and on a device how many entries have each upper part of their magnitudes.
class PeakStore {
 public:
  /// Room for the peaks of `round.tensor`, which has so many entries. It is kept for the rounds that follow.
  std::span<float> room(const Round& round, std::size_t entries) {
    auto& peaks = peaks_.of(round);
    peaks.resize(peaks_of(entries));
    return peaks;
  }

  /// Empty if there are none.
  Peaks of(const Round& round) const {
    const std::vector<float>* found = peaks_.find(round);
    return found == nullptr ? Peaks() : Peaks(*found);
  }

  /// Where the counts of `round.tensor` are noted (device/memory_steps.hpp).
  at::Tensor& room_for_bins(const Round& round) { return bins_.of(round); }

  const cuda::Bins* bins_of(const Round& round) const {
    const at::Tensor* found = bins_.find(round);
    return found == nullptr ? nullptr : device::counts_of(*found);
  }

 private:
  PerTensor<std::vector<float>> peaks_;
  PerTensor<at::Tensor> bins_;
};

}  // namespace weir::compressors
