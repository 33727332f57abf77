#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/job_files.hpp"
#include "cluster/services.hpp"

namespace weir::cluster {

/// What the processes of an attempt print: each continues the log file of its rank. Lives on the head's strand.
class WorkerLogs {
 public:
  WorkerLogs(Services& services, std::string job_id, std::uint32_t world);

  /// Appends what a process has printed, from byte `offset` of its output on. Returns the change that puts it on the
  /// stream, if there is something new: a repeated piece does no harm. What the file refuses is lost, unless it is
  /// because the disk is full. Fails with: exhausted (disk full).
  net::awaitable<Result<std::optional<change::Publish>>> append(std::uint32_t rank, std::uint64_t offset,
                                                                std::string text);

 private:
  Services& services_;
  const std::string job_id_;
  /// By rank: where the output of this attempt begins in the log. Used on Services::logs only, where what the attempt
  /// before has printed is written first.
  std::shared_ptr<std::vector<job_files::LogBegin>> begins_;
};

}  // namespace weir::cluster
