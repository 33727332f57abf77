#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// The Peaks (kernels/selection/selection.hpp) that a memory notes of the tensors of the model.
class PeakStore {
 public:
  /// Room for the peaks of `round.tensor`, which has so many entries. It is kept for the rounds that follow.
  std::span<float> room(const Round& round, std::size_t entries) {
    auto& peaks = peaks_[round.tensor];
    peaks.resize(peaks_of(entries));
    return peaks;
  }

  /// Empty if there are none.
  Peaks of(const Round& round) const {
    const auto found = peaks_.find(round.tensor);
    return found == peaks_.end() ? Peaks() : Peaks(found->second);
  }

 private:
  std::map<std::uint32_t, std::vector<float>> peaks_;
};

}  // namespace weir::compressors
