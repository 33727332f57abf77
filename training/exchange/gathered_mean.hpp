#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/device/codes.hpp"
#include "training/exchange/mean.hpp"

namespace weir::training {

/// Makes the mean of the payloads that all ranks have sent of a tensor, on several threads (at::set_num_threads) and
/// with the same bits on any number of them: a thread has a range of entries, and adds the ranks to each of them in
/// their order. Payloads that carry some entries only are read first, side by side; few of them stay on the calling
/// thread.
///
/// Means on a device are made there, in the calling thread's current stream, those of several tensors together:
/// begin(), then read_for() of one tensor after the other, which says what is wrong with a payload, and add_read().
///
/// Serves one tensor after the other; what it needs meanwhile it keeps for the next.
class GatheredMean {
 public:
  /// What is there to be averaged.
  struct Payloads {
    std::span<const BytesView> of_ranks;           ///< in rank order
    compressors::Round round;                      ///< of this rank
    float share = 1;                               ///< the factor of each rank
    const compressors::Selection* sent = nullptr;  ///< what this rank's payload carries, for traits().sparse
  };

  /// Adds the payloads to `mean`, which is in the host's memory if they carry some entries only. If it is sparse, it
  /// has no positions yet, and those of all payloads are noted in any order, each as often as it was sent. Fails with
  /// what Compressor::decode_add() fails with; the context names the rank.
  Result<void> add(compressors::Compressor& compressor, const Payloads& payloads, Mean& mean);

  /// Forgets what has been read.
  void begin();
  /// Reads payloads for a mean on a device, which is zero. Fails as add().
  Result<void> read_for(compressors::Compressor& compressor, const Payloads& payloads, Mean& mean);
  /// Adds `share`, that of all payloads, times what has been read to the means. Fails as compressors/device.
  Result<void> add_read(compressors::Compressor& compressor, float share);

 private:
  /// The entries of a rank.
  struct Entries {
    compressors::Selection read;
    const compressors::Selection* all = nullptr;  ///< those that were read, or this rank's own
    Result<void> result;
  };

  /// To `ranks`, which are as many as the payloads.
  Result<void> read(const compressors::Compressor& compressor, const Payloads& payloads, std::uint64_t entries,
                    std::span<Entries> ranks);
  void add_entries(float share, Mean& mean);
  void add_range(float share, std::uint64_t begin, std::uint64_t end, Mean& mean) const;

  std::vector<Entries> ranks_;
  bool on_threads_ = false;

  std::deque<std::vector<Entries>> read_;  ///< of the ranks, by tensor; kept for later tensors
  std::vector<EntriesForMean> for_means_;  ///< of those that have been read
  std::vector<compressors::device::ToAdd> waiting_;
};

}  // namespace weir::training
