#pragma once

#include "cluster/services.hpp"

namespace weir::cluster {

/// Finds out whether the store takes commits. Lives on the head's strand.
class StoreProbe {
 public:
  explicit StoreProbe(Services& services) : services_(services) {}

  /// Fails with the error of a commit. A store that fails is asked again after a while only: anybody may ask for the
  /// health of a head, and such a store tries to write each time.
  net::awaitable<Result<void>> ask();

 private:
  Services& services_;
  Result<void> answer_;  ///< the last one
  runtime::Clock::time_point asked_{};
};

}  // namespace weir::cluster
