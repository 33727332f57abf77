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

  /// The part of a log that is not on the stream yet, and the change that puts it there.
  struct Unpublished {
    change::Publish item;
    std::uint32_t rank = 0;
    std::uint64_t end = 0;  ///< in the log
  };

  /// Appends what a process has printed, from byte `offset` of its output on. A repeated piece does no harm. Returns
  /// what is to be published of the log, if there is something. What the file refuses is lost, unless it is because the
  /// disk is full. Fails with: exhausted (disk full).
  net::awaitable<Result<std::optional<Unpublished>>> append(std::uint32_t rank, std::uint64_t offset, std::string text);

  /// To be called once the log's item is committed. Until then it is part of what append() returns.
  void published(std::uint32_t rank, std::uint64_t end) { published_to_.at(rank) = end; }

 private:
  Services& services_;
  const std::string job_id_;
  std::vector<std::optional<std::uint64_t>> published_to_;  ///< by rank; nothing before the first piece
  /// By rank: where the output of this attempt begins in the log. Used on Services::logs only, where what the attempt
  /// before has printed is written first.
  std::shared_ptr<std::vector<job_files::LogBegin>> begins_;
};

}  // namespace weir::cluster
