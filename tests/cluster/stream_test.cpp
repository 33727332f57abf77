#include "cluster/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sqlite3.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "cluster/store/sqlite.hpp"
#include "cluster/stream_hub.hpp"
#include "runtime/testing/simulation.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = open_sqlite_store({.file = dir_.path() / "weir.db", .stream_items_max = 100},
                               net::make_strand(simulation_.executor()), simulation_.executor())
                 .value();
    hub_ = std::make_shared<StreamHub>(store_, simulation_.clock(), 0);
    store_->observe([hub = hub_](const std::vector<StreamItem>& items) { hub->publish(items); });
  }
  void TearDown() override { store_->observe(nullptr); }  // it holds the hub, which holds the store

  void publish(const std::string& data, StreamKind kind = StreamKind::metrics, const std::string& job = "a") {
    std::vector<Change> changes;
    changes.push_back(change::Publish{kind, job, data});
    ASSERT_TRUE(simulation_.run(store_->commit(std::move(changes))));
  }
  std::unique_ptr<Subscription> subscribe(std::string_view topics, std::optional<std::uint64_t> after = {}) {
    return hub_->subscribe(Topics::parse(topics).value(), after);
  }
  /// All that comes without time passing.
  std::vector<std::string> drain(Subscription& subscription) {
    std::vector<std::string> all;
    for (;;) {
      auto batch = simulation_.run(subscription.next(1ms));
      EXPECT_TRUE(batch);
      if (!batch || (batch->items.empty() && !batch->reset)) return all;
      if (batch->reset) all.emplace_back("reset");
      for (const auto& item : batch->items) all.push_back(item.data);
    }
  }

  TemporaryDir dir_;
  runtime::testing::Simulation simulation_{7};
  std::shared_ptr<Store> store_;
  std::shared_ptr<StreamHub> hub_;
};

TEST_F(StreamTest, DeliversWhatWasAskedForInOrder) {
  auto job = subscribe("job:a");
  auto logs = subscribe("logs:a,cluster");
  publish("1");
  publish("2", StreamKind::log);
  publish("3", StreamKind::event, "");
  publish("4", StreamKind::metrics, "b");
  publish("5", StreamKind::job_end);
  EXPECT_THAT(drain(*job), ElementsAre("1", "5"));
  EXPECT_THAT(drain(*logs), ElementsAre("2", "3", "5"));
  EXPECT_THAT(drain(*job), IsEmpty());
}

TEST_F(StreamTest, WhoFollowsTheClusterIsToldOfRemovedNodes) {
  auto cluster = subscribe("cluster");
  auto jobs = subscribe("jobs,job:a");
  std::vector<Change> changes;
  changes.push_back(change::RemoveNode{"n1"});
  ASSERT_TRUE(simulation_.run(store_->commit(std::move(changes))));
  const auto batch = simulation_.run(cluster->next(1ms));
  ASSERT_TRUE(batch);
  ASSERT_THAT(batch->items, SizeIs(1));
  EXPECT_EQ(batch->items[0].kind, StreamKind::node_removed);
  EXPECT_EQ(batch->items[0].data, R"({"id":"n1"})");
  EXPECT_THAT(drain(*jobs), IsEmpty());
  auto later = subscribe("cluster", 0);
  EXPECT_THAT(drain(*later), ElementsAre(R"({"id":"n1"})")) << "it is kept for those who were away";
}

TEST_F(StreamTest, WhoFollowsAJobInAnyWayIsToldOfItsDeletion) {
  auto job = subscribe("job:a");
  auto logs = subscribe("logs:a");
  auto other = subscribe("logs:b");
  publish("gone", StreamKind::job_removed);
  EXPECT_THAT(drain(*job), ElementsAre("gone"));
  EXPECT_THAT(drain(*logs), ElementsAre("gone"));
  EXPECT_THAT(drain(*other), IsEmpty());
}

TEST_F(StreamTest, APlaceKeepsUpWithWhatWasNotAskedFor) {
  auto quiet = subscribe("cluster");
  EXPECT_EQ(quiet->place(), 0u);
  std::optional<Result<Subscription::Batch>> batch;
  net::co_spawn(simulation_.executor(), quiet->next(1s),
                [&batch](const std::exception_ptr&, Result<Subscription::Batch> next) { batch = std::move(next); });
  simulation_.settle();
  publish("1");
  publish("2");
  ASSERT_TRUE(simulation_.run_until([&batch] { return batch.has_value(); }));
  ASSERT_TRUE(*batch);
  EXPECT_THAT((*batch)->items, IsEmpty());
  EXPECT_EQ((*batch)->sequence, 2u);
  EXPECT_EQ(quiet->place(), 2u);
  EXPECT_EQ(subscribe("job:a", 1)->place(), 1u);
}

TEST_F(StreamTest, ResumesWithoutGapOrRepeat) {
  auto first = subscribe("job:a");
  for (int i = 1; i <= 10; ++i) publish(std::to_string(i));
  auto batch = simulation_.run(first->next(1ms));
  ASSERT_TRUE(batch);
  ASSERT_THAT(batch->items, SizeIs(10));
  const auto fourth = batch->items[3].sequence;
  first.reset();
  publish("11");
  auto second = subscribe("job:a", fourth);
  publish("12");
  EXPECT_THAT(drain(*second), ElementsAre("5", "6", "7", "8", "9", "10", "11", "12"));
  publish("13");
  EXPECT_THAT(drain(*second), ElementsAre("13"));
}

TEST_F(StreamTest, WhatAReaderHasReadFromTheStoreIsNotRepeatedWhenItIsPublished) {
  std::vector<StreamItem> published;
  store_->observe([&](const std::vector<StreamItem>& items) { published = items; });
  publish("1");
  hub_->publish(published);
  auto behind = subscribe("job:a", 0);
  publish("2");  // is in the store, and its observer is about to be told
  EXPECT_THAT(drain(*behind), ElementsAre("1", "2"));
  hub_->publish(published);
  EXPECT_THAT(drain(*behind), IsEmpty());
  store_->observe([hub = hub_](const std::vector<StreamItem>& items) { hub->publish(items); });
  publish("3");
  EXPECT_THAT(drain(*behind), ElementsAre("3"));
}

TEST_F(StreamTest, APlaceThatIsGoneIsAReset) {
  auto gone = subscribe("job:a", 3);
  auto future = subscribe("job:a", 5000);
  for (int i = 1; i <= 150; ++i) publish(std::to_string(i));
  EXPECT_THAT(drain(*gone), ElementsAre("reset"));
  EXPECT_THAT(drain(*future), ElementsAre("reset"));
  publish("new");
  EXPECT_THAT(drain(*gone), ElementsAre("new"));
}

/// The work to do before a read of the stream's rows, on whatever connection of this program.
std::function<void()> before_rows;

int trace_statement(unsigned, void*, void*, void* text) {
  const std::string_view sql = static_cast<const char*>(text);
  if (before_rows && sql.starts_with("SELECT sequence, kind, job, data FROM stream")) std::exchange(before_rows, {})();
  return 0;
}

int trace_connection(sqlite3* connection, const char**, const void*) {
  return sqlite3_trace_v2(connection, SQLITE_TRACE_STMT, &trace_statement, nullptr);
}

TEST_F(StreamTest, ItemsThatAreTrimmedDuringAReadAreInItOrAReset) {
  for (int i = 1; i <= 100; ++i) publish(std::to_string(i));
  ASSERT_EQ(sqlite3_auto_extension(reinterpret_cast<void (*)()>(&trace_connection)), SQLITE_OK);
  store_->observe(nullptr);
  store_ = open_sqlite_store({.file = dir_.path() / "weir.db", .stream_items_max = 100},
                             net::make_strand(simulation_.executor()), simulation_.executor())
               .value();
  sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&trace_connection));
  before_rows = [this] {
    Database(dir_.path() / "weir.db", false)
        .execute(
            "BEGIN; DELETE FROM stream WHERE sequence <= 50;"
            "INSERT INTO facts (name, value) VALUES ('stream_trimmed', 50); COMMIT");
  };
  const auto page = simulation_.run(store_->stream(0, 1000, 1 << 20)).value();
  EXPECT_FALSE(before_rows) << "it was called";
  EXPECT_LE(page.items.front().sequence, page.oldest) << "items of which nothing is told are missing";
}

TEST_F(StreamTest, ASlowReaderLosesNothingThatIsStillKept) {
  auto slow = subscribe("job:a");
  std::vector<StreamItem> transient(5000, StreamItem{0, StreamKind::node, "", "load"});
  auto cluster = subscribe("cluster");
  hub_->publish(transient);  // more than the queue holds: the rest is dropped, nothing is behind
  for (int i = 1; i <= 90; ++i) publish(std::to_string(i));
  EXPECT_THAT(drain(*slow), SizeIs(90));
  EXPECT_THAT(drain(*cluster), SizeIs(1024));
}

TEST_F(StreamTest, AQueueIsBoundedInBytes) {
  auto live = subscribe("cluster,job:a");
  const std::vector<StreamItem> transient(5, StreamItem{0, StreamKind::node, "", std::string(100 * 1024, 'n')});
  hub_->publish(transient);
  EXPECT_THAT(drain(*live), SizeIs(2)) << "two of 100 KiB fit into 256 KiB; the rest is dropped";
  for (char c = 'a'; c < 'i'; ++c) publish(std::string(100 * 1024, c));
  const auto before = simulation_.run(live->next(1ms));
  ASSERT_TRUE(before);
  EXPECT_THAT(before->items, SizeIs(8)) << "the queue could not hold them: they come from the store, in one batch";
  std::string order;
  for (const auto& item : before->items) order += item.data.front();
  EXPECT_EQ(order, "abcdefgh");
  for (char c = 'a'; c < 'm'; ++c) publish(std::string(100 * 1024, c));
  EXPECT_THAT(simulation_.run(live->next(1ms))->items, SizeIs(10)) << "a batch has at most 1 MiB";
  EXPECT_THAT(drain(*live), SizeIs(2));
  hub_->publish({StreamItem{0, StreamKind::node, "", std::string(1 << 20, 'n')}});
  EXPECT_THAT(drain(*live), SizeIs(1)) << "one that is larger than the queue still comes";
}

TEST_F(StreamTest, AReaderThatIsBehindPassesWhatWasDeleted) {
  auto live = subscribe("job:a");
  for (char c = 'a'; c < 'e'; ++c) publish(std::string(100 * 1024, c));  // more than its queue holds
  std::vector<Change> removal;
  removal.push_back(change::RemoveJob{"a"});
  ASSERT_TRUE(simulation_.run(store_->commit(std::move(removal))));
  EXPECT_THAT(drain(*live), IsEmpty());
  auto from_the_start = subscribe("job:a", 0);
  EXPECT_THAT(drain(*from_the_start), IsEmpty());
  publish("next");
  EXPECT_THAT(drain(*live), ElementsAre("next"));
  EXPECT_THAT(drain(*from_the_start), ElementsAre("next"));
}

TEST_F(StreamTest, NextReturnsEmptyWhenPatienceEndsAndWakesWhenSomethingComes) {
  auto subscription = subscribe("job:a");
  const auto before = simulation_.clock().now();
  auto batch = simulation_.run(subscription->next(15s));
  EXPECT_THAT(batch->items, IsEmpty());
  EXPECT_EQ(simulation_.clock().now() - before, 15s);
  std::optional<Result<Subscription::Batch>> later;
  net::co_spawn(simulation_.executor(), subscription->next(15s),
                [&](std::exception_ptr, Result<Subscription::Batch> got) { later = std::move(got); });
  simulation_.settle();
  EXPECT_FALSE(later);
  publish("x");
  simulation_.settle();
  ASSERT_TRUE(later);
  EXPECT_THAT((*later)->items, SizeIs(1));
}

TEST_F(StreamTest, SubscribersThatHaveGoneTakeNoMemoryThoughNothingIsPublished) {
  subscribe("job:a");
  const auto before = ::mallinfo2().uordblks;  // bytes of allocations
  for (int i = 0; i < 10'000; ++i) subscribe("job:a");
  EXPECT_LT(::mallinfo2().uordblks, before + (64 << 10));
}

TEST_F(StreamTest, ClosingTheHubEndsSubscriptions) {
  auto subscription = subscribe("job:a");
  std::optional<Result<Subscription::Batch>> last;
  net::co_spawn(simulation_.executor(), subscription->next(1h),
                [&](std::exception_ptr, Result<Subscription::Batch> got) { last = std::move(got); });
  simulation_.settle();
  hub_->close();
  simulation_.settle();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->error().code, Errc::cancelled);
}

TEST(Topics, RefusesWhatItDoesNotKnow) {
  for (const char* list : {"", "jobs,", "job:", "logs:", "everything", "jobs,,cluster"}) {
    const auto parsed = Topics::parse(list);
    if (std::string_view(list) == "jobs,") {
      EXPECT_TRUE(parsed);
    } else {
      EXPECT_FALSE(parsed) << list;
    }
  }
}

TEST_F(StreamTest, TheHubKnowsWhatIsFollowed) {
  EXPECT_FALSE(hub_->followed(StreamKind::node, ""));
  const auto job = subscribe("job:a");
  EXPECT_FALSE(hub_->followed(StreamKind::node, ""));
  EXPECT_TRUE(hub_->followed(StreamKind::metrics, "a"));
  EXPECT_FALSE(hub_->followed(StreamKind::metrics, "b"));
  auto cluster = subscribe("cluster");
  EXPECT_TRUE(hub_->followed(StreamKind::node, ""));
  cluster.reset();
  EXPECT_FALSE(hub_->followed(StreamKind::node, "")) << "the last one has gone";
}

}  // namespace
}  // namespace weir::cluster
