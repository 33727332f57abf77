#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/per_tensor.hpp"

namespace weir::compressors {

/// The Peaks (kernels/selection/selection.hpp) that a memory notes of the tensors of the model.
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

 private:
  PerTensor<std::vector<float>> peaks_;
};

}  // namespace weir::compressors
