#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cluster/head.hpp"
#include "cluster/store.hpp"
#include "cluster/stream_hub.hpp"
#include "runtime/clock.hpp"
#include "runtime/fwd.hpp"

namespace weir::cluster {

/// Shared by the parts of a head. Owned by the head; used on its strand, except for the fields marked "any thread".
struct Services {
  HeadOptions options;                ///< any thread: never changes
  net::any_io_executor strand;        ///< all of the head's state lives here
  net::any_io_executor files;         ///< blocking work with checkpoints and folders, in order
  net::any_io_executor logs;          ///< blocking work with what workers print, in order
  runtime::Clock& clock;              ///< any thread
  std::shared_ptr<Store> store;       ///< any thread
  std::shared_ptr<StreamHub> stream;  ///< any thread
  std::mt19937_64 random;
  std::uint64_t fence = 0;                 ///< the fencing number given out last
  runtime::ActorSystem* system = nullptr;  ///< any thread: the links with nodes and workers

  Time now() const { return std::chrono::time_point_cast<std::chrono::milliseconds>(clock.wall()); }

  /// 26 characters, sortable by time (a ULID in lower case).
  std::string new_id();

  /// A fencing number never used before. The caller commits PutFence together with the record that uses it.
  std::uint64_t next_fence() { return ++fence; }

  /// The change that records that something has happened now, to a job or (without an id) to the cluster.
  change::AddEvent event(std::string job_id, Severity severity, std::string kind, std::string message) const;

  std::filesystem::path job_dir(const std::string& job_id) const { return options.data_dir / "jobs" / job_id; }
};

/// The change that puts a job on the stream.
change::Publish job_item(const JobRecord& job, StreamKind kind = StreamKind::job);

/// The event that a job is in another phase.
change::AddEvent phase_event(const Services& services, const JobRecord& job);

/// The change that puts new points of a job on the stream.
change::Publish metrics_item(const JobRecord& job, const std::vector<MetricRow>& rows);

}  // namespace weir::cluster
