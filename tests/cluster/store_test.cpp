#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <cmath>
#include <fstream>
#include <random>

#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "cluster/store/queries.hpp"
#include "cluster/store/sqlite.hpp"
#include "runtime/testing/simulation.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

JobRecord make_job(const std::string& id, const std::string& name = "job") {
  JobRecord job;
  job.id = id;
  job.name = name;
  job.spec = {{"model", {{"name", "lenet"}}}};
  return job;
}

std::vector<Change> add_job(const std::string& id, const std::string& key = "", const std::string& hash = "") {
  std::vector<Change> changes;
  changes.push_back(change::AddJob{make_job(id), key, hash});
  return changes;
}

class StoreTest : public ::testing::Test {
 protected:
  void open() {
    auto opened = open_sqlite_store({.file = file(),
                                     .stream_items_max = stream_items_max_,
                                     .stream_bytes_max = stream_bytes_max_,
                                     .cluster_events_max = cluster_events_max_,
                                     .cleared_rows_max = cleared_rows_max_},
                                    net::make_strand(simulation_.executor()), simulation_.executor());
    ASSERT_TRUE(opened) << opened.error().message();
    store_ = *opened;
  }
  void SetUp() override { open(); }
  void reopen() {
    simulation_.run(store_->close());
    open();
  }
  std::filesystem::path file() const { return dir_.path() / "weir.db"; }
  Result<void> commit(std::vector<Change> changes) { return simulation_.run(store_->commit(std::move(changes))); }

  TemporaryDir dir_;
  runtime::testing::Simulation simulation_{1};
  std::uint64_t stream_items_max_ = 1000;
  std::uint64_t stream_bytes_max_ = 64 << 20;
  std::uint64_t cluster_events_max_ = 100'000;
  std::uint32_t cleared_rows_max_ = 20'000;
  std::shared_ptr<Store> store_;
};

TEST_F(StoreTest, JobsAreCountedInMemoryAsTheRowsSay) {
  constexpr std::array states = {JobState::pending, JobState::running, JobState::succeeded, JobState::failed,
                                 JobState::stopped};
  // A text that every job has makes the store count by query.
  JobQuery all;
  all.text = "job";
  const auto by_query = [&] { return simulation_.run(store_->jobs(all)).value().counts; };
  EXPECT_EQ(store_->job_counts(), by_query());
  EXPECT_THAT(store_->job_counts(), SizeIs(states.size())) << "every state is there";
  std::mt19937 random(3);
  std::vector<std::string> ids;
  std::size_t refused = 0;
  for (int step = 0; step < 400; ++step) {
    std::vector<Change> changes;
    for (std::uint32_t i = 0; i <= random() % 4; ++i) {
      const auto kind = random() % 8;
      if (kind < 3 || ids.empty()) {
        ids.push_back("id-" + std::to_string(step) + "-" + std::to_string(i));
        changes.push_back(change::AddJob{make_job(ids.back()), "", ""});
      } else if (kind == 3) {
        changes.push_back(change::RemoveJob{ids[random() % ids.size()]});
      } else {
        JobRecord job = make_job(ids[random() % ids.size()]);
        job.state = states[random() % states.size()];
        changes.push_back(change::PutJob{job});
      }
    }
    if (random() % 10 == 0) changes.push_back(change::AddJob{make_job("same"), "", ""});  // the second one is refused
    if (!commit(std::move(changes))) ++refused;
    ASSERT_EQ(store_->job_counts(), by_query()) << "step " << step;
    ASSERT_EQ(store_->job_counts(), simulation_.run(store_->jobs({})).value().counts);
  }
  EXPECT_GT(refused, 10u);
  const auto before = store_->job_counts();
  EXPECT_GT(before.at(JobState::failed), 10u);
  reopen();
  EXPECT_EQ(store_->job_counts(), before);
}

TEST_F(StoreTest, WhatAnObserverThrowsUndoesNoCommit) {
  store_->observe([](const std::vector<StreamItem>&) { throw std::bad_alloc(); });
  auto changes = add_job("a");
  changes.push_back(change::Publish{StreamKind::job_removed, "a", "{}"});
  EXPECT_TRUE(commit(std::move(changes)));
  EXPECT_TRUE(simulation_.run(store_->job("a")).value());
  EXPECT_EQ(store_->job_counts().at(JobState::pending), 1u);
  store_->observe(nullptr);
}

TEST_F(StoreTest, AJobIsReadBackAsItWasWritten) {
  ASSERT_TRUE(commit(add_job("a")));
  JobRecord job = make_job("a");
  job.state = JobState::failed;
  job.phase = JobPhase::none;
  job.reason = "because";
  job.restarts = 2;
  job.started_at = Time(std::chrono::milliseconds(5));
  job.ended_at = Time(std::chrono::milliseconds(7));
  job.step = 3;
  job.steps_total = 9;
  job.summary = {{"loss", 0.5}};
  std::vector<Change> changes;
  changes.push_back(change::PutJob{job});
  ASSERT_TRUE(commit(std::move(changes)));
  reopen();
  const auto found = simulation_.run(store_->job("a"));
  ASSERT_TRUE(found && *found);
  EXPECT_EQ(to_json(**found), to_json(job));
  EXPECT_FALSE(*simulation_.run(store_->job("b")));
}

TEST_F(StoreTest, ACommitIsAllOrNothingAndSparesItsNeighbours) {
  ASSERT_TRUE(commit(add_job("a", "key", "h1")));
  // The two wait together and share a transaction; the one that fails takes nothing else with it.
  auto bad = add_job("b");
  bad.push_back(change::AddJob{make_job("a"), "", ""});
  std::optional<Result<void>> first;
  net::co_spawn(simulation_.executor(), store_->commit(std::move(bad)),
                [&](std::exception_ptr, Result<void> result) { first = std::move(result); });
  EXPECT_TRUE(commit(add_job("c")));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->error().code, Errc::conflict);
  EXPECT_FALSE(*simulation_.run(store_->job("b")));
  EXPECT_TRUE(*simulation_.run(store_->job("c")));
  EXPECT_EQ(commit(add_job("d", "key", "h2")).error().code, Errc::conflict);
  const auto use = simulation_.run(store_->idempotency_key("key"));
  ASSERT_TRUE(use && *use);
  EXPECT_EQ((*use)->job_id, "a");
  EXPECT_EQ((*use)->body_hash, "h1");
}

TEST_F(StoreTest, JobsArePagedNewestFirst) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(commit(add_job("id" + std::to_string(i))));
  JobQuery query;
  query.limit = 2;
  std::vector<std::string> ids;
  for (int page = 0; page < 3; ++page) {
    const auto found = simulation_.run(store_->jobs(query));
    ASSERT_TRUE(found);
    for (const auto& job : found->jobs) ids.push_back(job.id);
    query.cursor = found->next;
  }
  EXPECT_THAT(ids, ElementsAre("id4", "id3", "id2", "id1", "id0"));
  EXPECT_EQ(query.cursor, "");
  query.text = "ID3";
  EXPECT_THAT(simulation_.run(store_->jobs(query))->jobs, SizeIs(1));
  query.text = "";
  query.state = JobState::failed;
  EXPECT_THAT(simulation_.run(store_->jobs(query))->jobs, SizeIs(0));
  query.cursor = "x";
  EXPECT_EQ(simulation_.run(store_->jobs(query)).error().code, Errc::invalid_argument);
}

TEST_F(StoreTest, JobsAreCountedByStateOnWhateverPage) {
  for (const char* id : {"a1", "a2", "b1"}) ASSERT_TRUE(commit(add_job(id, "", "")));
  JobQuery query;
  query.limit = 1;
  query.state = JobState::failed;
  auto counts = simulation_.run(store_->jobs(query))->counts;
  EXPECT_THAT(counts, SizeIs(5));
  EXPECT_EQ(counts[JobState::pending], 3u);
  EXPECT_EQ(counts[JobState::failed], 0u);
  query.text = "A";
  EXPECT_EQ(simulation_.run(store_->jobs(query))->counts[JobState::pending], 2u);
}

TEST_F(StoreTest, EventsAreListedFromEitherEnd) {
  std::vector<Change> changes;
  for (int i = 0; i < 5; ++i) {
    changes.push_back(change::AddEvent{{0, {}, "", Severity::info, "node.joined", std::to_string(i), "", {}}});
  }
  ASSERT_TRUE(commit(std::move(changes)));
  for (const bool newest_first : {false, true}) {
    EventQuery query{.job_id = "", .limit = 2, .newest_first = newest_first};
    std::string all;
    do {
      const auto page = simulation_.run(store_->events(query)).value();
      for (const auto& event : page.events) all += event.message;
      query.cursor = page.next;
    } while (query.cursor != 0);
    EXPECT_EQ(all, newest_first ? "43210" : "01234");
  }
}

TEST_F(StoreTest, AWorkersRoleIsKept) {
  ASSERT_TRUE(commit(add_job("a", "", "")));
  std::vector<Change> changes;
  for (const auto role : protocol::all_roles) {
    WorkerRecord worker;
    worker.id = std::string(to_string(role));
    worker.job_id = "a";
    worker.rank = static_cast<std::uint32_t>(role);
    worker.role = role;
    changes.push_back(change::PutWorker{worker});
  }
  ASSERT_TRUE(commit(std::move(changes)));
  const auto workers = simulation_.run(store_->workers("a")).value();
  ASSERT_THAT(workers, SizeIs(3));
  for (const auto& worker : workers) EXPECT_EQ(worker.id, to_string(worker.role));
}

TEST_F(StoreTest, RemovingAJobTakesAllThatHangsOnIt) {
  ASSERT_TRUE(commit(add_job("a", "key", "h")));
  std::vector<Change> changes;
  WorkerRecord worker;
  worker.id = "w";
  worker.job_id = "a";
  changes.push_back(change::PutWorker{worker});
  changes.push_back(change::AddMetrics{"a", {{"loss", 0, 1, 0.1, 0, 2.0}}});
  changes.push_back(change::AddCheckpoint{{"a", 5, 100, {}}});
  changes.push_back(change::AddEvent{{0, {}, "a", Severity::info, "job.state", "x", "", {}}});
  changes.push_back(change::Publish{StreamKind::log, "a", "what it printed"});
  changes.push_back(change::Publish{StreamKind::job, "b", "another job"});
  ASSERT_TRUE(commit(std::move(changes)));
  EXPECT_THAT(*simulation_.run(store_->events({.job_id = "a", .limit = 10})),
              testing::Field(&EventPage::events, SizeIs(1)));
  std::vector<Change> removal;
  removal.push_back(change::RemoveJob{"a"});
  ASSERT_TRUE(commit(std::move(removal)));
  EXPECT_FALSE(*simulation_.run(store_->idempotency_key("key")));
  EXPECT_THAT(*simulation_.run(store_->workers("a")), SizeIs(0));
  EXPECT_THAT(*simulation_.run(store_->checkpoints("a")), SizeIs(0));
  MetricQuery query;
  query.job_id = "a";
  EXPECT_THAT(*simulation_.run(store_->metrics(query)), SizeIs(0));
  const auto stream = simulation_.run(store_->stream(0, 100, 1000));
  ASSERT_THAT(stream->items, SizeIs(1));
  EXPECT_EQ(stream->items[0].data, "another job");
  EXPECT_EQ(stream->oldest, 1u) << "nobody who goes on from the start misses anything";
}

TEST_F(StoreTest, TheStreamIsBoundedInBytes) {
  simulation_.run(store_->close());
  stream_bytes_max_ = 1000;
  open();
  for (int i = 1; i <= 5; ++i) {
    std::vector<Change> changes;
    changes.push_back(change::Publish{StreamKind::log, "a", std::string(300, static_cast<char>('0' + i))});
    ASSERT_TRUE(commit(std::move(changes)));
  }
  auto page = simulation_.run(store_->stream(0, 100, 10'000));
  ASSERT_THAT(page->items, SizeIs(3)) << "3 x 300 bytes fit into 1000";
  EXPECT_EQ(page->items[0].sequence, 3u);
  EXPECT_EQ(page->oldest, 3u);
  EXPECT_EQ(page->newest, 5u);
  EXPECT_TRUE(page->complete);

  page = simulation_.run(store_->stream(2, 100, 600));
  EXPECT_THAT(page->items, SizeIs(2)) << "a page is bounded in bytes, too";
  EXPECT_FALSE(page->complete);
  page = simulation_.run(store_->stream(2, 2, 10'000));
  EXPECT_THAT(page->items, SizeIs(2));
  EXPECT_FALSE(page->complete);
  page = simulation_.run(store_->stream(2, 3, 1));
  EXPECT_THAT(page->items, SizeIs(1)) << "the first one whatever its size";

  std::vector<Change> changes;
  changes.push_back(change::Publish{StreamKind::log, "a", std::string(5000, 'x')});
  ASSERT_TRUE(commit(std::move(changes)));
  page = simulation_.run(store_->stream(5, 100, 10'000));
  EXPECT_THAT(page->items, SizeIs(1)) << "the newest stays whatever its size";
  EXPECT_EQ(page->oldest, 6u);
}

TEST_F(StoreTest, EventsOfTheClusterAreBoundedAndThoseOfAJobStay) {
  ASSERT_TRUE(commit(add_job("a")));
  const auto add = [this](const std::string& job, int count) {
    for (int i = 0; i < count; ++i) {
      std::vector<Change> changes;
      changes.push_back(change::AddEvent{{0, {}, job, Severity::info, "kind", "x", "", {}}});
      ASSERT_TRUE(commit(std::move(changes)));
    }
  };
  const auto events = [this](const std::string& job) {
    return simulation_.run(store_->events({.job_id = job, .limit = 1000}))->events;
  };
  add("a", 60);
  add("", 300);
  EXPECT_THAT(events(""), SizeIs(300));
  cluster_events_max_ = 50;
  cleared_rows_max_ = 100;
  reopen();
  add("", 1);
  EXPECT_THAT(events(""), SizeIs(201)) << "what has gathered before is deleted bit by bit";
  add("", 2);
  EXPECT_THAT(events(""), SizeIs(50));
  add("", 4);
  EXPECT_THAT(events(""), SizeIs(54)) << "not each event deletes another";
  add("", 1);
  ASSERT_THAT(events(""), SizeIs(50));
  EXPECT_EQ(events("").front().sequence, 60u + 300 + 8 - 49);
  EXPECT_THAT(events("a"), SizeIs(60));
}

TEST_F(StoreTest, DownSamplingKeepsTheExtremes) {
  ASSERT_TRUE(commit(add_job("a")));
  std::vector<MetricRow> rows;
  for (std::uint64_t step = 0; step < 10'000; ++step) {
    double value = std::sin(static_cast<double>(step) / 100);
    if (step == 4321) value = 50;
    if (step == 7777) value = -50;
    if (step == 9000) value = std::nan("");
    rows.push_back({"loss", std::nullopt, step, static_cast<double>(step) / 10, step * 8, value});
  }
  rows.push_back({"loss", 0, 5, 0.5, 40, 1});
  std::vector<Change> changes;
  changes.push_back(change::AddMetrics{"a", rows});
  ASSERT_TRUE(commit(std::move(changes)));
  for (const auto axis : {MetricAxis::step, MetricAxis::wall, MetricAxis::bytes}) {
    MetricQuery query{"a", {"loss"}, axis, {}, {}, 100, true, {}};
    const auto found = simulation_.run(store_->metrics(query));
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_THAT(*found, SizeIs(2));
    const auto& whole = found->at(0);
    EXPECT_FALSE(whole.worker);
    ASSERT_THAT(whole.points, SizeIs(100));
    double least = 0;
    double most = 0;
    for (const auto& bucket : whole.points) {
      least = std::min(least, bucket.min);
      most = std::max(most, bucket.max);
    }
    EXPECT_EQ(least, -50);
    EXPECT_EQ(most, 50);
    EXPECT_EQ(whole.points.back().last, rows[9999].value);
    EXPECT_EQ(whole.points, simulation_.run(store_->metrics(query))->at(0).points) << "the same again";
  }
  // A range with no more rows than buckets is given as it is.
  MetricQuery query{"a", {"loss"}, MetricAxis::step, 100, 109, 100, true, {}};
  const auto few = simulation_.run(store_->metrics(query));
  ASSERT_THAT(few->at(0).points, SizeIs(10));
  EXPECT_EQ(few->at(0).points[3].x, 103);
  EXPECT_EQ(few->at(0).points[3].last, rows[103].value);
}

TEST_F(StoreTest, ManySeriesShareThePointsOfOneAnswer) {
  ASSERT_TRUE(commit(add_job("a")));
  std::vector<MetricRow> rows;
  for (std::uint32_t worker = 0; worker < 250; ++worker) {
    for (std::uint64_t step = 0; step < 500; ++step) rows.push_back({"loss", worker, step, 0, 0, 1});
  }
  std::vector<Change> changes;
  changes.push_back(change::AddMetrics{"a", rows});
  ASSERT_TRUE(commit(std::move(changes)));
  MetricQuery query{"a", {}, MetricAxis::step, {}, {}, 5000, true, {}};
  auto found = simulation_.run(store_->metrics(query));
  ASSERT_THAT(*found, SizeIs(250));
  for (const auto& series : *found) EXPECT_THAT(series.points, SizeIs(400)) << "100,000 points over 250 series";
  query.all_workers = false;
  query.worker = 7;
  found = simulation_.run(store_->metrics(query));
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_EQ(found->at(0).worker, 7u);
  EXPECT_THAT(found->at(0).points, SizeIs(500));
}

TEST_F(StoreTest, AFilterByStateUsesTheIndex) {
  const auto plan_of = [this](const JobQuery& query) {
    Database database(file(), true);
    Statement& rows = database.prepare("EXPLAIN QUERY PLAN " + queries::sql_of_jobs(query));
    std::string plan;
    while (rows.step()) {
      for (int column = 0; column < 3; ++column) rows.integer();
      plan += rows.text() + "\n";
    }
    return plan;
  };
  EXPECT_THAT(plan_of({.state = JobState::failed, .text = {}, .cursor = {}}),
              HasSubstr("jobs_by_state (state=? AND number<?)"));
  EXPECT_THAT(plan_of({.state = {}, .text = {}, .cursor = {}}), HasSubstr("USING INTEGER PRIMARY KEY (rowid<?)"));
}

TEST_F(StoreTest, MetricsDoNotHoldUpOtherReads) {
  simulation_.run(store_->close());
  const auto heavy = simulation_.process();
  store_ = open_sqlite_store({.file = file()}, net::make_strand(simulation_.executor()), simulation_.executor(),
                             heavy->executor())
               .value();
  ASSERT_TRUE(commit(add_job("a")));
  heavy->stop();
  std::size_t done = 0;
  const auto count = [&done](const std::exception_ptr&, const auto& result) { done += result ? 1 : 0; };
  for (int i = 0; i < 3; ++i) {
    MetricQuery query{"a", {}, MetricAxis::step, {}, {}, 10, true, {}};
    net::co_spawn(simulation_.executor(), store_->metrics(std::move(query)), count);
  }
  net::co_spawn(simulation_.executor(), store_->traffic({.job_id = "a"}), count);
  EXPECT_THAT(simulation_.run(store_->jobs({}))->jobs, SizeIs(1));
  EXPECT_TRUE(*simulation_.run(store_->job("a")));
  EXPECT_EQ(done, 0u);
  heavy->resume();
  simulation_.settle();
  EXPECT_EQ(done, 4u);
}

/// A job with so many points that they are not deleted at once.
class RemovalTest : public StoreTest {
 protected:
  void SetUp() override {
    cleared_rows_max_ = 500;
    StoreTest::SetUp();
    ASSERT_TRUE(commit(add_job("large", "key", "hash")));
    ASSERT_TRUE(commit(add_job("other")));
    for (const char* job : {"large", "other"}) {
      std::vector<Change> changes;
      changes.push_back(change::AddMetrics{job, std::vector<MetricRow>(30'000, {"loss", 0, 1, 0, 0, 1.0})});
      changes.push_back(change::AddMetrics{job, std::vector<MetricRow>(10'000, {"loss", 1, 1, 0, 0, 1.0})});
      ASSERT_TRUE(commit(std::move(changes)));
      ASSERT_TRUE(commit(event_of(job)));
    }
  }

  static std::vector<Change> event_of(const std::string& job) {
    return {change::AddEvent{{.time = {}, .job_id = job, .kind = {}, .message = {}, .node = {}, .worker = {}}}};
  }
  std::int64_t rows(const std::string& of) { return Database(file(), true).integer("SELECT count(*) FROM " + of); }
  bool shows(const std::string& job) {
    EXPECT_EQ(simulation_.run(store_->jobs({}))->jobs.size(), 1u);
    EXPECT_EQ(store_->job_counts().at(JobState::pending), 1u);
    return simulation_.run(store_->job(job))->has_value();
  }
};

TEST_F(RemovalTest, OthersCommitWhileTheRowsOfAJobAreDeleted) {
  std::optional<std::int64_t> left;  // once an event is committed that came right after the removal
  const auto committed = [&](const std::exception_ptr&, const Result<void>& done) {
    EXPECT_TRUE(done);
    left = rows("metrics");
  };
  const auto removed = [&](const std::exception_ptr&, const Result<void>& done) {
    EXPECT_TRUE(done);
    net::co_spawn(simulation_.executor(), store_->commit(event_of("other")), committed);
  };
  net::co_spawn(simulation_.executor(), store_->commit({change::RemoveJob{"large"}}), removed);
  simulation_.settle();
  EXPECT_GT(left.value(), 40'000) << "the event did not wait for them";
  EXPECT_FALSE(shows("large"));
  EXPECT_FALSE(*simulation_.run(store_->idempotency_key("key"))) << "it may be used again";
  EXPECT_EQ(rows("metrics"), 40'000);
  EXPECT_EQ(rows("series"), 2);
  EXPECT_EQ(rows("jobs"), 1);
  EXPECT_EQ(rows("events"), 2);
  EXPECT_TRUE(shows("other"));
}

TEST_F(RemovalTest, GoesOnAfterARestart) {
  ASSERT_TRUE(commit({change::RemoveJob{"large"}}));
  simulation_.run(store_->close());
  EXPECT_GT(rows("metrics"), 40'000);
  open();
  EXPECT_FALSE(shows("large"));
  simulation_.settle();
  EXPECT_EQ(rows("metrics"), 40'000);
  EXPECT_EQ(rows("jobs"), 1);
  EXPECT_TRUE(shows("other"));
}

TEST_F(StoreTest, AFileOfANewerWeirIsRefused) {
  simulation_.run(store_->close());
  Database(file(), false).execute("PRAGMA user_version = 999");
  const auto opened = open_sqlite_store({.file = file()}, simulation_.executor(), simulation_.executor());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  EXPECT_THAT(opened.error().context, HasSubstr("newer weir"));
}

TEST_F(StoreTest, TablesOtherThanThoseOfTheSchemaAreRefused) {
  Database(file(), false).execute("ANALYZE");  // for which SQLite makes tables itself
  reopen();
  simulation_.run(store_->close());
  Database(file(), false).execute("ALTER TABLE nodes ADD COLUMN colour TEXT");
  const auto opened = open_sqlite_store({.file = file()}, simulation_.executor(), simulation_.executor());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  EXPECT_THAT(opened.error().context, HasSubstr("another data directory"));
}

TEST_F(StoreTest, AQueryThatCannotBePreparedIsATypedErrorEveryTime) {
  Database(file(), false).execute("ALTER TABLE nodes RENAME TO machines");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto nodes = simulation_.run(store_->nodes());
    ASSERT_FALSE(nodes);
    EXPECT_EQ(nodes.error().code, Errc::internal);
    EXPECT_THAT(nodes.error().context, HasSubstr("no such table"));
  }
  EXPECT_TRUE(commit(add_job("a")));
  EXPECT_TRUE(*simulation_.run(store_->job("a"))) << "other queries go on";
}

TEST_F(StoreTest, WhatIsNoStoreIsRefused) {
  const auto open_file = [this](const std::filesystem::path& path) {
    return open_sqlite_store({.file = path}, simulation_.executor(), simulation_.executor());
  };
  const auto garbage = dir_.path() / "garbage";
  std::ofstream(garbage) << std::string(10'000, 'x');
  EXPECT_EQ(open_file(garbage).error().code, Errc::io);
  const auto foreign = dir_.path() / "foreign";
  Database(foreign, false).execute("CREATE TABLE t (x)");
  EXPECT_THAT(open_file(foreign).error().context, HasSubstr("another program"));
  EXPECT_EQ(open_file(dir_.path() / "no" / "such" / "dir").error().code, Errc::io);
}

TEST_F(StoreTest, AClosedStoreSaysSo) {
  simulation_.run(store_->close());
  EXPECT_EQ(commit(add_job("a")).error().code, Errc::cancelled);
  EXPECT_EQ(simulation_.run(store_->job("a")).error().code, Errc::cancelled);
}

/// The child of the next test: commits jobs one after the other and writes each id to the pipe once it is acknowledged.
[[noreturn]] void commit_for_ever(const std::filesystem::path& file, int pipe) {
  net::io_context io;
  auto store = open_sqlite_store({.file = file}, net::make_strand(io), io.get_executor());
  if (!store) ::_exit(1);
  for (int number = 0;; ++number) {
    std::vector<Change> changes = add_job(std::to_string(number));
    changes.push_back(change::AddMetrics{std::to_string(number), {{"loss", 0, 1, 0, 0, 1.0}}});
    net::co_spawn(io, (*store)->commit(std::move(changes)), [&](std::exception_ptr, Result<void> done) {
      const std::string line = std::to_string(number) + "\n";
      if (!done || ::write(pipe, line.data(), line.size()) < 0) ::_exit(2);
    });
    io.restart();
    io.run();
  }
}

TEST(StoreDurability, NothingAcknowledgedIsLostWhenTheWriterIsKilled) {
  for (int round = 0; round < 3; ++round) {
    TemporaryDir dir;
    const auto file = dir.path() / "weir.db";
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) commit_for_ever(file, ends[1]);
    ::close(ends[1]);
    std::string acknowledged;
    char buffer[64];
    while (acknowledged.size() < 100 + 37 * static_cast<std::size_t>(round)) {
      const auto count = ::read(ends[0], buffer, sizeof buffer);
      ASSERT_GT(count, 0);
      acknowledged.append(buffer, static_cast<std::size_t>(count));
    }
    ::kill(child, SIGKILL);
    for (ssize_t count = 1; count > 0;) {
      count = ::read(ends[0], buffer, sizeof buffer);
      if (count > 0) acknowledged.append(buffer, static_cast<std::size_t>(count));
    }
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    const auto count = std::count(acknowledged.begin(), acknowledged.end(), '\n');

    Database database(file, false);
    Statement& check = database.prepare("PRAGMA integrity_check");
    ASSERT_TRUE(check.step());
    EXPECT_EQ(check.text(), "ok");
    check.reset();
    EXPECT_GE(database.integer("SELECT count(*) FROM jobs"), count);
    EXPECT_EQ(database.integer("SELECT count(*) FROM jobs"), database.integer("SELECT count(*) FROM metrics"));
    EXPECT_EQ(database.integer("SELECT max(CAST(id AS INTEGER)) + 1 FROM jobs"),
              database.integer("SELECT count(*) FROM jobs"));
  }
}

}  // namespace
}  // namespace weir::cluster
