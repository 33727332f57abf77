#pragma once

#include <chrono>
#include <cstdint>

namespace weir::training {

/// A step of the exchange, as compressors and memories see it (compressors::Round).
struct Step {
  std::uint64_t number = 0;   ///< steps done before this one: optimizer steps, if the ranks exchange in each of them
  double epoch = 0;           ///< passes over the data done so far, with fraction
  double learning_rate = 1;   ///< by which optimizers multiply the means
  float vote = 0;             ///< this rank's vote, of which the ranks learn the sum
  std::uint64_t samples = 1;  ///< on which this rank's values depend: their weight, if the mean is weighted
  double share = 1;           ///< of the entries that a compressor chooses, this rank sends so many (Round::share)

  /// When the step began; with several backward passes, the first of them. Times of a StepTrace count from here.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

}  // namespace weir::training
