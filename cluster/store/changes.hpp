#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/store.hpp"
#include "cluster/store/sqlite.hpp"

namespace weir::cluster {

/// The effects of changes other than on rows.
struct Effects {
  std::vector<StreamItem> published;
  std::map<JobState, std::int64_t> jobs;  ///< by how much the number of jobs in each state has grown
  bool removes = false;                   ///< a job, whose rows clear_removed() is to delete
  std::uint64_t cluster_events = 0;       ///< events of no job, which trim_events() bounds

  void append(Effects more);
};

/// Applies one change inside the open transaction and adds to `effects`. Throws SqliteFailure.
void apply(Database& database, const Change& change, Effects& effects);

/// Whether rows of removed jobs are left.
bool has_removed(Database& database);

/// Deletes at most `rows_max` rows of metrics of removed jobs, and each job itself after the last of its metrics.
/// Returns whether there is more to delete.
bool clear_removed(Database& database, std::int64_t rows_max);

/// Changes a row that nobody reads, so that the transaction must write to the disk.
void touch(Database& database);

/// Drops the oldest items of the stream until it has at most `items_max`, with at most `bytes_max` bytes of data; the
/// newest item always stays.
void trim_stream(Database& database, std::uint64_t items_max, std::uint64_t bytes_max);

/// Deletes the events of the cluster that are older than its newest `kept_max`, at most `rows_max` of them. Returns
/// whether there is more to delete. Those of a job go with the job.
bool trim_events(Database& database, std::uint64_t kept_max, std::uint32_t rows_max);

}  // namespace weir::cluster
