#include "cluster/sqlite_store.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <deque>
#include <exception>
#include <mutex>

#include "base/errc.hpp"
#include "cluster/run_on.hpp"
#include "cluster/store/changes.hpp"
#include "cluster/store/migrations.hpp"
#include "cluster/store/queries.hpp"
#include "cluster/store/sqlite.hpp"

namespace weir::cluster {
namespace {

/// Calls `work` and converts its value, or the SqliteFailure that it throws, to a Result.
template <class Work>
auto caught(Work&& work) -> Result<std::invoke_result_t<Work&>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work&>>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const SqliteFailure& failure) {
    return failure.error;
  } catch (const std::exception& e) {
    return Error{Errc::io, std::string("store: a row cannot be read: ") + e.what()};
  }
}

/// Members before `writer_mutex_` are fixed or used on the writer's executor only; those after a mutex are guarded by
/// it. Kept alive by the operations in progress.
class SqliteStore final : public Store, public std::enable_shared_from_this<SqliteStore> {
 public:
  using Done = std::function<void(Result<void>)>;

  SqliteStore(SqliteStoreOptions options, net::any_io_executor writer, net::any_io_executor reader,
              net::any_io_executor heavy)
      : options_(std::move(options)),
        writer_executor_(std::move(writer)),
        reader_executor_(std::move(reader)),
        heavy_executor_(heavy ? std::move(heavy) : reader_executor_) {}

  /// Throws SqliteFailure.
  void open() {
    writer_ = std::make_unique<Database>(options_.file, false);
    migrate(*writer_);
    counts_ = queries::count_jobs(*writer_, "");
    for (std::uint32_t i = 0; i < options_.readers; ++i) {
      idle_readers_.push_back(std::make_unique<Database>(options_.file, true));
    }
    removed_ = has_removed(*writer_);
    clear_later();
  }

  net::awaitable<Result<void>> commit(std::vector<Change> changes) override {
    Enqueue start{shared_from_this(), std::move(changes)};
    co_return co_await await_completion<Result<void>>(std::move(start));
  }

  net::awaitable<Result<std::optional<JobRecord>>> job(std::string id) override {
    return read([id = std::move(id)](Database& db) { return queries::job(db, id); });
  }
  net::awaitable<Result<JobPage>> jobs(JobQuery query) override {
    return read([self = shared_from_this(), query = std::move(query)](Database& db) {
      JobPage page = queries::jobs(db, query);
      page.counts = query.text.empty() ? self->job_counts() : queries::count_jobs(db, query.text);
      return page;
    });
  }
  JobCounts job_counts() const override {
    const std::lock_guard lock(counts_mutex_);
    return counts_;
  }
  net::awaitable<Result<std::vector<JobRecord>>> unfinished_jobs() override {
    return read([](Database& db) { return queries::unfinished_jobs(db); });
  }
  net::awaitable<Result<std::optional<KeyUse>>> idempotency_key(std::string key) override {
    return read([key = std::move(key)](Database& db) { return queries::idempotency_key(db, key); });
  }
  net::awaitable<Result<std::vector<WorkerRecord>>> workers(std::string job_id) override {
    return read([job_id = std::move(job_id)](Database& db) { return queries::workers(db, job_id); });
  }
  net::awaitable<Result<std::vector<NodeRecord>>> nodes() override {
    return read([](Database& db) { return queries::nodes(db); });
  }
  net::awaitable<Result<EventPage>> events(EventQuery query) override {
    return read([query = std::move(query)](Database& db) { return queries::events(db, query); });
  }
  net::awaitable<Result<std::vector<MetricSeries>>> metrics(MetricQuery query) override {
    return read_much([query = std::move(query)](Database& db) { return queries::metrics(db, query); });
  }
  net::awaitable<Result<std::vector<SeriesRecord>>> series(MetricQuery query) override {
    return read_much([query = std::move(query)](Database& db) { return queries::series(db, query); });
  }
  net::awaitable<Result<std::vector<MetricRow>>> metric_rows(SeriesRecord series, std::uint64_t after,
                                                             std::uint32_t limit) override {
    return read_much([series = std::move(series), after, limit](Database& db) {
      return queries::metric_rows(db, series, after, limit);
    });
  }
  net::awaitable<Result<std::vector<StepBack>>> step_backs(SeriesRecord series) override {
    return read_much([series = std::move(series)](Database& db) { return queries::step_backs(db, series); });
  }
  net::awaitable<Result<std::vector<WorkerTraffic>>> traffic(TrafficQuery query) override {
    return read_much([query = std::move(query)](Database& db) { return queries::traffic(db, query); });
  }
  net::awaitable<Result<std::vector<CheckpointRecord>>> checkpoints(std::string job_id) override {
    return read([job_id = std::move(job_id)](Database& db) { return queries::checkpoints(db, job_id); });
  }
  net::awaitable<Result<std::uint64_t>> fence() override {
    return read([](Database& db) { return queries::fence(db); });
  }
  net::awaitable<Result<StreamPage>> stream(std::uint64_t after, std::uint32_t limit, std::size_t bytes_max) override {
    return read([after, limit, bytes_max](Database& db) { return queries::stream(db, after, limit, bytes_max); });
  }

  void observe(Observer observer) override { observer_ = std::move(observer); }

  net::awaitable<void> close() override {
    auto finish = [self = shared_from_this()]() -> Result<void> {
      self->shut();
      return {};
    };
    co_await run_on(writer_executor_, std::move(finish));  // the writer's executor is first in, first out
  }

 private:
  struct Waiting {
    std::vector<Change> changes;
    Done done;
    Result<void> result;
  };

  /// The operation that commit() awaits, see await_completion().
  struct Enqueue {
    std::shared_ptr<SqliteStore> store;
    std::vector<Change> changes;
    void operator()(Done done) { store->enqueue(std::move(changes), std::move(done)); }
  };

  void enqueue(std::vector<Change> changes, Done done) {
    bool idle = false;
    {
      const std::lock_guard lock(writer_mutex_);
      idle = waiting_.empty();
      waiting_.push_back({std::move(changes), std::move(done), Result<void>()});
    }
    if (idle) net::post(writer_executor_, [self = shared_from_this()] { self->write_waiting(); });
  }

  /// Commits everything that waits, in one transaction. Runs on the writer's executor.
  void write_waiting() {
    std::deque<Waiting> batch;
    {
      const std::lock_guard lock(writer_mutex_);
      batch.swap(waiting_);
    }
    Effects effects;
    bool events_left = false;
    Result<void> committed = closed_ ? Result<void>(Error{Errc::cancelled, "the store is closed"})
                                     : caught([&] { events_left = write(batch, effects); });
    refuses_ = !committed;
    if (committed) {
      removed_ = removed_ || effects.removes;
      untrimmed_ = trims(effects) ? 0 : untrimmed_ + effects.cluster_events;
      if (events_left) untrimmed_ = trimmed_every();
      clear_later();
      tell_of(effects);
    } else {
      if (writer_) roll_back(*writer_);
    }
    for (auto& one : batch) one.done(committed ? std::move(one.result) : committed);
  }

  /// Lets rows of removed jobs be deleted when it is their turn on the writer's executor.
  void clear_later() {
    if (!removed_ || std::exchange(clearing_, true)) return;
    net::post(writer_executor_, [self = shared_from_this()] { self->clear_some(); });
  }

  /// Deletes some rows of removed jobs; what waits to be committed meanwhile comes before the next ones.
  void clear_some() {
    clearing_ = false;
    if (closed_) return;
    const auto cleared = caught([this] {
      writer_->execute("BEGIN IMMEDIATE");
      removed_ = clear_removed(*writer_, options_.cleared_rows_max);
      writer_->execute("COMMIT");
    });
    if (cleared) return clear_later();
    roll_back(*writer_);
    removed_ = true;  // it goes on after the next commit
    spdlog::warn("removing jobs from the store: {}", cleared.error().message());
  }

  /// What is committed stays so, whatever happens to those who want to know of it.
  void tell_of(const Effects& effects) {
    try {
      count(effects);
      if (observer_ && !effects.published.empty()) observer_(effects.published);
    } catch (const std::exception& e) {
      spdlog::error("the store's observer has failed: {}", e.what());
    }
  }

  void count(const Effects& effects) {
    const std::lock_guard lock(counts_mutex_);
    for (const auto& [state, more] : effects.jobs) counts_[state] += static_cast<std::uint64_t>(more);
  }

  /// To find what to trim costs as much as reading the index of what stays, so it is not done for each event.
  std::uint64_t trimmed_every() const { return std::max<std::uint64_t>(1, options_.cluster_events_max / 10); }
  bool trims(const Effects& effects) const {
    return effects.cluster_events > 0 && untrimmed_ + effects.cluster_events >= trimmed_every();
  }

  /// Returns whether more events are to be trimmed with the next one.
  bool write(std::deque<Waiting>& batch, Effects& effects) {
    writer_->execute("BEGIN IMMEDIATE");
    for (auto& one : batch) {
      Effects of_one;
      writer_->execute("SAVEPOINT one");
      one.result = caught([&] {
        for (const auto& change : one.changes) apply(*writer_, change, of_one);
      });
      if (one.result) {
        effects.append(std::move(of_one));
      } else if (writer_->in_transaction()) {
        writer_->execute("ROLLBACK TO one");
      } else {  // SQLite has rolled back the whole transaction: the disk is full or fails
        throw SqliteFailure{one.result.error()};
      }
      writer_->execute("RELEASE one");
    }
    if (!effects.published.empty()) trim_stream(*writer_, options_.stream_items_max, options_.stream_bytes_max);
    const bool events_left =
        trims(effects) && trim_events(*writer_, options_.cluster_events_max, options_.cleared_rows_max);
    if (refuses_) touch(*writer_);
    writer_->execute("COMMIT");
    return events_left;
  }

  /// Ends a transaction that has changed nothing, or of which the caller has an error already.
  static void roll_back(Database& database) {
    if (!database.in_transaction()) return;
    const auto ignored = caught([&] { database.execute("ROLLBACK"); });
    static_cast<void>(ignored);
  }

  template <class Query>
  auto read(Query query) -> net::awaitable<Result<std::invoke_result_t<Query&, Database&>>> {
    return read_on(reader_executor_, std::move(query));
  }
  /// For what may take seconds.
  template <class Query>
  auto read_much(Query query) -> net::awaitable<Result<std::invoke_result_t<Query&, Database&>>> {
    return read_on(heavy_executor_, std::move(query));
  }

  template <class Query>
  auto read_on(const net::any_io_executor& executor, Query query)
      -> net::awaitable<Result<std::invoke_result_t<Query&, Database&>>> {
    auto work = [self = shared_from_this(), query = std::move(query)]() mutable { return self->read_now(query); };
    return run_on(executor, std::move(work));
  }

  template <class Query>
  auto read_now(Query& query) -> Result<std::invoke_result_t<Query&, Database&>> {
    std::unique_ptr<Database> reader;
    {
      const std::lock_guard lock(readers_mutex_);
      if (readers_closed_) return Error{Errc::cancelled, "the store is closed"};
      if (!idle_readers_.empty()) {
        reader = std::move(idle_readers_.back());
        idle_readers_.pop_back();
      }
    }
    if (!reader) {  // more threads than connections: open one more
      auto opened = caught([&] { reader = std::make_unique<Database>(options_.file, true); });
      if (!opened) return opened.error();
    }
    auto result = caught([&] {
      reader->execute("BEGIN");  // all statements of a query read the same state of the store
      return query(*reader);
    });
    reader->reset_statements();
    roll_back(*reader);
    const std::lock_guard lock(readers_mutex_);
    if (!readers_closed_ && idle_readers_.size() < options_.readers) idle_readers_.push_back(std::move(reader));
    return result;
  }

  /// Runs on the writer's executor. Closes the readers first: the last connection to close moves the log into the file.
  void shut() {
    closed_ = true;
    {
      const std::lock_guard lock(readers_mutex_);
      readers_closed_ = true;
      idle_readers_.clear();
    }
    writer_.reset();
  }

  const SqliteStoreOptions options_;
  const net::any_io_executor writer_executor_;
  const net::any_io_executor reader_executor_;
  const net::any_io_executor heavy_executor_;
  Observer observer_;
  std::unique_ptr<Database> writer_;           ///< on the writer's executor only
  bool closed_ = false;                        ///< likewise
  bool refuses_ = false;                       ///< likewise: the last transaction failed
  bool removed_ = false;                       ///< likewise: there are rows of removed jobs
  bool clearing_ = false;                      ///< likewise: clear_some() is posted
  std::uint64_t untrimmed_ = trimmed_every();  ///< likewise: events of the cluster since they were trimmed, or enough

  std::mutex writer_mutex_;
  std::deque<Waiting> waiting_;

  mutable std::mutex counts_mutex_;
  JobCounts counts_;

  std::mutex readers_mutex_;
  std::vector<std::unique_ptr<Database>> idle_readers_;
  bool readers_closed_ = false;
};

}  // namespace

Result<std::shared_ptr<Store>> open_sqlite_store(SqliteStoreOptions options, net::any_io_executor writer,
                                                 net::any_io_executor reader, net::any_io_executor heavy) {
  auto store =
      std::make_shared<SqliteStore>(std::move(options), std::move(writer), std::move(reader), std::move(heavy));
  if (auto opened = caught([&] { store->open(); }); !opened) return opened.error();
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace weir::cluster
