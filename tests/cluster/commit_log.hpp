#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "cluster/store.hpp"
#include "runtime/event.hpp"

namespace weir::cluster {

/// Whether they say that a job has a new checkpoint.
inline bool add_checkpoint(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes,
                             [](const Change& one) { return std::holds_alternative<change::AddCheckpoint>(one); });
}

/// A store that remembers what was to be committed together, and can hold commits back or refuse them. All else goes to
/// the store below.
class CommitLog final : public Store {
 public:
  explicit CommitLog(std::shared_ptr<Store> below) : below_(std::move(below)) {}

  /// Commits for which `which` holds wait until release().
  void hold(std::function<bool(const std::vector<Change>&)> which) { held_ = std::move(which); }
  void release() {
    held_ = nullptr;
    released_.set();
  }
  /// Commits for which `which` holds fail, as on a full disk or otherwise, until accept(). What was held back is asked
  /// when it is released.
  void refuse(std::function<bool(const std::vector<Change>&)> which,
              Error why = {Errc::exhausted, "the disk is full"}) {
    refused_ = std::move(which);
    why_ = std::move(why);
  }
  void accept() { refused_ = nullptr; }
  /// The job of this id is not found from now on, as if it had just been deleted.
  void hide(std::string id) { hidden_ = std::move(id); }
  const std::vector<std::vector<Change>>& commits() const { return commits_; }

  net::awaitable<Result<void>> commit(std::vector<Change> changes) override {
    if (held_ && held_(changes)) co_await released_.wait();
    commits_.push_back(changes);
    if (refused_ && refused_(changes)) co_return why_;
    co_return co_await below_->commit(std::move(changes));
  }

  net::awaitable<Result<std::optional<JobRecord>>> job(std::string id) override {
    if (id == hidden_) co_return std::optional<JobRecord>();
    co_return co_await below_->job(std::move(id));
  }
  net::awaitable<Result<JobPage>> jobs(JobQuery query) override { return below_->jobs(std::move(query)); }
  JobCounts job_counts() const override { return below_->job_counts(); }
  net::awaitable<Result<std::vector<JobRecord>>> unfinished_jobs() override { return below_->unfinished_jobs(); }
  net::awaitable<Result<std::optional<KeyUse>>> idempotency_key(std::string key) override {
    return below_->idempotency_key(std::move(key));
  }
  net::awaitable<Result<std::vector<WorkerRecord>>> workers(std::string job_id) override {
    return below_->workers(std::move(job_id));
  }
  net::awaitable<Result<std::vector<NodeRecord>>> nodes() override { return below_->nodes(); }
  net::awaitable<Result<EventPage>> events(EventQuery query) override { return below_->events(std::move(query)); }
  net::awaitable<Result<std::vector<MetricSeries>>> metrics(MetricQuery query) override {
    return below_->metrics(std::move(query));
  }
  net::awaitable<Result<std::vector<SeriesRecord>>> series(MetricQuery query) override {
    return below_->series(std::move(query));
  }
  net::awaitable<Result<std::vector<MetricRow>>> metric_rows(SeriesRecord series, std::uint64_t after,
                                                             std::uint32_t limit) override {
    return below_->metric_rows(std::move(series), after, limit);
  }
  net::awaitable<Result<std::vector<StepBack>>> step_backs(SeriesRecord series) override {
    return below_->step_backs(std::move(series));
  }
  net::awaitable<Result<std::vector<WorkerTraffic>>> traffic(TrafficQuery query) override {
    return below_->traffic(std::move(query));
  }
  net::awaitable<Result<std::vector<CheckpointRecord>>> checkpoints(std::string job_id) override {
    return below_->checkpoints(std::move(job_id));
  }
  net::awaitable<Result<std::uint64_t>> fence() override { return below_->fence(); }
  net::awaitable<Result<StreamPage>> stream(std::uint64_t after, std::uint32_t limit, std::size_t bytes_max) override {
    return below_->stream(after, limit, bytes_max);
  }
  void observe(Observer observer) override { below_->observe(std::move(observer)); }
  net::awaitable<void> close() override { return below_->close(); }

 private:
  std::shared_ptr<Store> below_;
  std::function<bool(const std::vector<Change>&)> held_;
  runtime::Event released_;
  std::function<bool(const std::vector<Change>&)> refused_;
  Error why_;
  std::string hidden_;
  std::vector<std::vector<Change>> commits_;
};

}  // namespace weir::cluster
