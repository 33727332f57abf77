#include "tests/api/fake_head.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "runtime/asio.hpp"

namespace weir::api {
namespace {

const Error no_job{Errc::not_found, "there is no such job"};

/// So many groups of neighbours, each with its last x, least, greatest and last value.
std::vector<cluster::MetricBucket> down_sampled(const std::vector<cluster::MetricBucket>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<cluster::MetricBucket> buckets;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& point = points[i];
    if (i * most / points.size() == buckets.size()) {
      buckets.push_back(point);
    } else {
      auto& bucket = buckets.back();
      bucket = {point.x, std::min(bucket.min, point.min), std::max(bucket.max, point.max), point.last};
    }
  }
  return buckets;
}

/// Two points a page, so that every series of any length takes several.
class FakeMetricReader final : public cluster::MetricReader {
 public:
  explicit FakeMetricReader(std::vector<cluster::MetricSeries> series) : series_(std::move(series)) {}

  net::awaitable<Result<std::optional<Page>>> next() override {
    if (current_ == series_.size()) co_return std::optional<Page>();
    const auto& series = series_[current_];
    const auto end = std::min<std::size_t>(position_ + 2, series.points.size());
    Page page{series.name, series.worker, {series.points.data() + position_, series.points.data() + end}};
    position_ = end;
    if (position_ == series.points.size()) {
      ++current_;
      position_ = 0;
    }
    co_return page;
  }

 private:
  std::vector<cluster::MetricSeries> series_;
  std::size_t current_ = 0;
  std::size_t position_ = 0;
};

}  // namespace

class FakeSubscription final : public cluster::Subscription {
 public:
  FakeSubscription(FakeHead& head, cluster::Topics topics, std::uint64_t place)
      : head_(head), topics_(std::move(topics)), place_(place), seen_(head.items_.size()) {}

  net::awaitable<Result<Batch>> next(std::chrono::milliseconds patience) override {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
      if (closed_) co_return Error{Errc::cancelled, "closed"};
      auto batch = collect();
      if (!batch.items.empty() || batch.reset) co_return batch;
      net::steady_timer timer(head_.io_, deadline);
      head_.waiting_.push_back(&timer);
      const auto [cancelled] = co_await timer.async_wait(runtime::nothrow);
      head_.waiting_.remove(&timer);
      if (!cancelled) co_return collect();  // else there is news, perhaps for others only
    }
  }

  std::uint64_t place() override { return place_; }

  void close() override {
    closed_ = true;
    for (auto* timer : head_.waiting_) timer->cancel();
  }

 private:
  Batch collect() {
    Batch batch;
    if (place_ < head_.oldest_kept) {
      batch.reset = true;
      place_ = head_.oldest_kept;
    }
    for (std::size_t i = 0; i < head_.items_.size() && batch.items.size() < 256; ++i) {
      const auto& item = head_.items_[i];
      const bool has_place = item.sequence > 0;
      if (has_place ? item.sequence <= place_ : i < seen_) continue;
      if (has_place) place_ = item.sequence;
      seen_ = std::max(seen_, i + 1);
      if (topics_.match(item.kind, item.job_id)) batch.items.push_back(item);
    }
    batch.sequence = place_;
    return batch;
  }

  FakeHead& head_;
  cluster::Topics topics_;
  std::uint64_t place_;
  std::size_t seen_;  ///< items without a place that were published before are not for this one
  bool closed_ = false;
};

FakeHead::FakeHead(net::io_context& io) : io_(io), catalog_({{"models", nlohmann::json::array()}}) {}

void FakeHead::publish(cluster::StreamItem item) {
  net::post(io_, [this, item = std::move(item)]() mutable {
    items_.push_back(std::move(item));
    for (auto* timer : waiting_) timer->cancel();
  });
}

net::awaitable<void> FakeHead::stop() { co_return; }
std::string FakeHead::control_address() const { return "127.0.0.1:1"; }

net::awaitable<Result<cluster::Submission>> FakeHead::submit(nlohmann::json spec, std::string key) {
  cluster::Submission submission;
  submission.warnings = {{"/compression/params/ratio", "too small"}};
  const auto known = keys_.find(key);
  if (!key.empty() && known != keys_.end()) {
    if (known->second.first != spec) co_return Error{Errc::conflict, "the idempotency key was used with another body"};
    submission.job = jobs_by_id.at(known->second.second);
    co_return submission;
  }
  if (!spec.is_object() || !spec.contains("model")) {
    submission.problems = {{"", "\"model\" is required"}, {"/modle", "unknown field; did you mean \"model\"?"}};
    co_return submission;
  }
  cluster::JobRecord job;
  job.id = "job-" + std::to_string(1000 + jobs_by_id.size());
  job.name = spec.value("name", "unnamed");
  job.spec = spec;
  jobs_by_id[job.id] = job;
  if (!key.empty()) keys_[key] = {spec, job.id};
  submission.job = job;
  submission.created = true;
  co_return submission;
}

net::awaitable<Result<cluster::Validation>> FakeHead::validate(nlohmann::json spec) {
  cluster::Validation validation;
  if (!spec.contains("model"))
    validation.problems = {{"", "\"model\" is required"}};
  else
    validation.spec = std::move(spec);
  validation.placement = {{"fits", false}, {"reason", "no nodes"}};
  validation.round = {{"parameters", nullptr}, {"bytes_dense", nullptr}, {"bytes_sent", 20}};
  validation.warnings = {{"/compression/params/ratio", "too small"}};
  co_return validation;
}

net::awaitable<Result<cluster::JobPage>> FakeHead::jobs(cluster::JobQuery query) {
  cluster::JobPage page;
  using enum cluster::JobState;
  for (const auto state : {pending, running, succeeded, failed, stopped}) page.counts[state] = 0;
  for (const auto& [id, job] : jobs_by_id) ++page.counts[job.state];
  for (auto entry = jobs_by_id.rbegin(); entry != jobs_by_id.rend(); ++entry) {
    const auto& job = entry->second;
    if (!query.cursor.empty() && job.id >= query.cursor) continue;
    if (query.state && job.state != *query.state) continue;
    if (job.name.find(query.text) == std::string::npos) continue;
    if (page.jobs.size() == query.limit) {
      page.next = page.jobs.back().id;
      break;
    }
    page.jobs.push_back(job);
  }
  co_return page;
}

net::awaitable<Result<cluster::JobTotals>> FakeHead::job_totals() {
  cluster::JobTotals totals;
  using enum cluster::JobState;
  for (const auto state : {pending, running, succeeded, failed, stopped}) totals.counts[state] = 0;
  for (const auto& [id, job] : jobs_by_id) {
    ++totals.counts[job.state];
    if (job.state == running) totals.bytes_sent += job.summary.value("bytes_sent", 0.0);
  }
  co_return totals;
}

net::awaitable<Result<cluster::JobRecord>> FakeHead::job(std::string id) {
  const auto found = jobs_by_id.find(id);
  if (found == jobs_by_id.end()) co_return no_job;
  co_return found->second;
}

net::awaitable<Result<std::vector<cluster::WorkerRecord>>> FakeHead::workers(std::string id) {
  if (!jobs_by_id.contains(id)) co_return no_job;
  cluster::WorkerRecord worker;
  worker.id = id + "-w0";
  worker.job_id = id;
  worker.node = "n0";
  co_return std::vector{worker};
}

net::awaitable<Result<cluster::JobRecord>> FakeHead::stop_job(std::string id) {
  const auto found = jobs_by_id.find(id);
  if (found == jobs_by_id.end()) co_return no_job;
  cluster::JobRecord job = found->second;
  if (!cluster::terminal(job.state)) job.phase = cluster::JobPhase::stopping;
  co_return job;
}

net::awaitable<Result<void>> FakeHead::remove_job(std::string id) {
  const auto found = jobs_by_id.find(id);
  if (found == jobs_by_id.end()) co_return no_job;
  if (!cluster::terminal(found->second.state)) co_return Error{Errc::conflict, "the job has not ended"};
  jobs_by_id.erase(found);
  co_return Result<void>();
}

net::awaitable<Result<std::vector<cluster::MetricSeries>>> FakeHead::metrics(cluster::MetricQuery query) {
  if (!jobs_by_id.contains(query.job_id)) co_return no_job;
  auto chosen = series_of(query);
  for (auto& one : chosen) one.points = down_sampled(one.points, query.points);
  co_return chosen;
}

net::awaitable<Result<std::unique_ptr<cluster::MetricReader>>> FakeHead::metric_points(cluster::MetricQuery query) {
  if (!jobs_by_id.contains(query.job_id)) co_return no_job;
  co_return std::make_unique<FakeMetricReader>(series_of(query));
}

std::vector<cluster::MetricSeries> FakeHead::series_of(const cluster::MetricQuery& query) const {
  std::map<std::pair<std::string, std::optional<std::uint32_t>>, std::vector<cluster::MetricBucket>> found;
  for (const auto& row : metric_rows) {
    const auto& names = query.names;
    if (!names.empty() && std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    if (!query.all_workers && query.worker != row.worker) continue;
    const double x = query.x == cluster::MetricAxis::wall    ? row.wall_seconds
                     : query.x == cluster::MetricAxis::bytes ? static_cast<double>(row.wire_bytes)
                                                             : static_cast<double>(row.step);
    auto& points = found[{row.name, row.worker}];
    if (x >= query.from.value_or(x) && x <= query.to.value_or(x))
      points.push_back({x, row.value, row.value, row.value});
  }
  std::vector<cluster::MetricSeries> series;
  for (auto& [key, points] : found) series.push_back({key.first, key.second, std::move(points)});
  return series;
}

net::awaitable<Result<cluster::LogSlice>> FakeHead::logs(std::string id, std::uint32_t worker, std::uint64_t offset,
                                                         std::uint64_t limit) {
  const auto found = logs_by_job.find(id);
  if (found == logs_by_job.end() || worker != 0) co_return Error{Errc::not_found, "no such job or worker"};
  cluster::LogSlice slice;
  slice.size = found->second.size();
  slice.offset = std::min(offset, slice.size);
  slice.text = found->second.substr(slice.offset, limit);
  slice.next = slice.offset + slice.text.size();
  co_return slice;
}

net::awaitable<Result<std::vector<cluster::LogSize>>> FakeHead::log_sizes(std::string id) {
  const auto found = logs_by_job.find(id);
  if (found == logs_by_job.end()) co_return no_job;
  co_return std::vector<cluster::LogSize>{{0, found->second.size()}};
}

net::awaitable<Result<cluster::EventPage>> FakeHead::events(cluster::EventQuery query) {
  cluster::EventPage page;
  auto list = event_list;
  if (query.newest_first) std::reverse(list.begin(), list.end());
  for (const auto& event : list) {
    if (event.job_id != query.job_id) continue;
    const bool follows = query.newest_first ? event.sequence < query.cursor : event.sequence > query.cursor;
    if (query.cursor != 0 && !follows) continue;
    if (page.events.size() == query.limit) {
      page.next = page.events.back().sequence;
      break;
    }
    page.events.push_back(event);
  }
  co_return page;
}

net::awaitable<Result<std::vector<cluster::WorkerTraffic>>> FakeHead::traffic(cluster::TrafficQuery query) {
  if (!jobs_by_id.contains(query.job_id)) co_return no_job;
  auto found = traffic_list;
  std::erase_if(found, [&query](const auto& one) { return query.worker && one.worker != *query.worker; });
  for (auto& one : found) {
    if (!query.totals) one.totals = {};
    if (!query.totals) one.plan.reset();
    if (!query.sampled) one.sampled.reset();
    if (!query.slowest) one.slowest.reset();
  }
  co_return found;
}

net::awaitable<Result<std::vector<cluster::CheckpointRecord>>> FakeHead::checkpoints(std::string id) {
  if (!jobs_by_id.contains(id)) co_return no_job;
  co_return std::vector{cluster::CheckpointRecord{id, 10, 3, {}}};
}

net::awaitable<Result<std::filesystem::path>> FakeHead::checkpoint_path(std::string id, std::uint64_t step) {
  if (!jobs_by_id.contains(id) || step != 10) co_return Error{Errc::not_found, "no such checkpoint"};
  co_return checkpoint_file;
}

net::awaitable<Result<std::vector<cluster::NodeRecord>>> FakeHead::nodes() {
  if (throws) throw std::runtime_error("a library's complaint");
  co_return node_list;
}

net::awaitable<Result<cluster::NodeRecord>> FakeHead::node(std::string id) {
  for (const auto& node : node_list)
    if (node.id == id || node.name == id) co_return node;
  co_return Error{Errc::not_found, "there is no such node"};
}

net::awaitable<Result<cluster::NodeRecord>> FakeHead::drain(std::string id) {
  for (auto& node : node_list) {
    if (node.id != id && node.name != id) continue;
    node.state = cluster::NodeState::draining;
    co_return node;
  }
  co_return Error{Errc::not_found, "there is no such node"};
}

net::awaitable<Result<cluster::NodeRecord>> FakeHead::undrain(std::string id) {
  for (auto& node : node_list) {
    if (node.id != id && node.name != id) continue;
    node.state = cluster::NodeState::alive;
    co_return node;
  }
  co_return Error{Errc::not_found, "there is no such node"};
}

net::awaitable<Result<void>> FakeHead::forget(std::string id) {
  for (auto node = node_list.begin(); node != node_list.end(); ++node) {
    if (node->id != id && node->name != id) continue;
    if (node->state != cluster::NodeState::lost) co_return Error{Errc::conflict, "the node is not lost"};
    node_list.erase(node);
    co_return Result<void>();
  }
  co_return Error{Errc::not_found, "there is no such node"};
}

net::awaitable<Result<cluster::ActorPage>> FakeHead::actors(std::string filter, std::uint32_t limit,
                                                            std::string cursor) {
  cluster::ActorPage page;
  for (const auto& actor : actor_list) {
    if (actor.name.find(filter) == std::string::npos || actor.name <= cursor) continue;
    if (page.actors.size() == limit) {
      page.next = page.actors.back().name;
      break;
    }
    page.actors.push_back(actor);
  }
  co_return page;
}

net::awaitable<Result<std::unique_ptr<cluster::Subscription>>> FakeHead::subscribe(cluster::Topics topics,
                                                                                   std::optional<std::uint64_t> after) {
  std::uint64_t newest = 0;
  for (const auto& item : items_) newest = std::max(newest, item.sequence);
  co_return std::make_unique<FakeSubscription>(*this, std::move(topics), after.value_or(newest));
}

net::awaitable<Result<cluster::Health>> FakeHead::health() { co_return health_now; }

}  // namespace weir::api
