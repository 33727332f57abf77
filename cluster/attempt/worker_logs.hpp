#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/services.hpp"

namespace weir::cluster {

/// What the processes of an attempt print: each continues the log file of its rank. Lives on the head's strand.
class WorkerLogs {
 public:
  WorkerLogs(Services& services, std::string job_id, std::uint32_t world);

  /// Appends what a process has printed, from byte `offset` of its output on, and puts it on the stream. A repeated
  /// piece does no harm. Fails with: malformed (what comes before is missing), io, exhausted, and the errors of the
  /// store.
  net::awaitable<Result<void>> append(std::uint32_t rank, std::uint64_t offset, std::string text);

 private:
  Services& services_;
  const std::string job_id_;
  std::vector<std::uint64_t> begins_;  ///< by rank: where the output of this attempt begins in the log
};

}  // namespace weir::cluster
