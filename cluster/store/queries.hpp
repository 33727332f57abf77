#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/store.hpp"
#include "cluster/store/sqlite.hpp"

/// The store's reads. Each throws SqliteFailure.
namespace weir::cluster::queries {

std::optional<JobRecord> job(Database& database, const std::string& id);
/// Counts the jobs whose id or name contains the text; "" = all.
JobCounts count_jobs(Database& database, const std::string& text);
/// The statement of jobs().
std::string sql_of_jobs(const JobQuery& query);
/// A page without its counts. Throws invalid_argument for a cursor that is not from a page.
JobPage jobs(Database& database, const JobQuery& query);
std::vector<JobRecord> unfinished_jobs(Database& database);
std::optional<KeyUse> idempotency_key(Database& database, const std::string& key);
std::vector<WorkerRecord> workers(Database& database, const std::string& job_id);
std::vector<NodeRecord> nodes(Database& database);
EventPage events(Database& database, const EventQuery& query);
std::vector<MetricSeries> metrics(Database& database, const MetricQuery& query);
std::vector<SeriesRecord> series(Database& database, const MetricQuery& query);
std::vector<MetricRow> metric_rows(Database& database, const SeriesRecord& series, std::uint64_t after,
                                   std::uint32_t limit);
std::vector<StepBack> step_backs(Database& database, const SeriesRecord& series);
std::vector<WorkerTraffic> traffic(Database& database, const TrafficQuery& query);
std::vector<CheckpointRecord> checkpoints(Database& database, const std::string& job_id);
std::uint64_t fence(Database& database);
Store::StreamPage stream(Database& database, std::uint64_t after, std::uint32_t limit, std::size_t bytes_max);

}  // namespace weir::cluster::queries
