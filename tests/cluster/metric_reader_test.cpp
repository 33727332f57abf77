#include "cluster/metric_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/strand.hpp>

#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "runtime/testing/simulation.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class MetricReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = open_sqlite_store({.file = dir_.path() / "weir.db"}, net::make_strand(simulation_.executor()),
                               simulation_.executor())
                 .value();
    add_job("a");
  }
  void commit(Change change) {
    std::vector<Change> changes;
    changes.push_back(std::move(change));
    ASSERT_TRUE(simulation_.run(store_->commit(std::move(changes))));
  }
  void add_job(const std::string& id) {
    JobRecord job;
    job.id = id;
    commit(change::AddJob{job, "", ""});
  }
  /// Records the steps of a series; wall seconds, bytes and value are 10, 100 and 1000 times the row's position.
  void record(const std::string& name, std::optional<std::uint32_t> worker, const std::vector<std::uint64_t>& steps) {
    std::vector<MetricRow> rows;
    double position = 0;
    for (const auto step : steps) {
      ++position;
      rows.push_back({name, worker, step, 10 * position, static_cast<std::uint64_t>(100 * position), 1000 * position});
    }
    commit(change::AddMetrics{"a", rows});
  }
  static MetricQuery over(MetricAxis axis, std::optional<double> from = {}, std::optional<double> to = {}) {
    return {"a", {}, axis, from, to, 500, true, {}};
  }
  std::unique_ptr<MetricReader> read(MetricQuery query, bool restarted = false) {
    return simulation_.run(read_metrics(store_, std::move(query), restarted)).value();
  }
  std::optional<MetricReader::Page> next(MetricReader& reader) { return simulation_.run(reader.next()).value(); }
  /// The places of all points of the next series.
  std::vector<double> places(MetricReader& reader) {
    std::vector<double> all;
    const auto page = next(reader);
    for (const auto& point : page->points) all.push_back(point.x);
    return all;
  }

  TemporaryDir dir_;
  runtime::testing::Simulation simulation_{3};
  std::shared_ptr<Store> store_;
};

TEST_F(MetricReaderTest, GivesEveryPointInPages) {
  std::vector<std::uint64_t> steps(10'000);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = i;
  record("loss", 3, steps);
  record("loss", std::nullopt, {7});
  const auto reader = read(over(MetricAxis::step));
  auto page = next(*reader);
  ASSERT_TRUE(page);
  EXPECT_FALSE(page->worker) << "the job's own series is the first of its name";
  EXPECT_THAT(page->points, ElementsAre(MetricBucket{7, 1000, 1000, 1000}));
  std::vector<std::size_t> sizes;
  double expected = 0;
  while ((page = next(*reader))) {
    EXPECT_EQ(page->name, "loss");
    EXPECT_EQ(page->worker, 3u);
    sizes.push_back(page->points.size());
    for (const auto& point : page->points) {
      const double value = 1000 * (expected + 1);
      ASSERT_EQ(point, (MetricBucket{expected, value, value, value}));
      ++expected;
    }
  }
  EXPECT_THAT(sizes, ElementsAre(4096, 4096, 1808));
  EXPECT_FALSE(next(*reader)) << "and stays at its end";
}

TEST_F(MetricReaderTest, WhatCameAfterTheBeginningIsNotInIt) {
  record("loss", std::nullopt, {1, 2});
  const auto reader = read(over(MetricAxis::step));
  record("loss", std::nullopt, {3});
  record("accuracy", std::nullopt, {3});
  EXPECT_THAT(places(*reader), ElementsAre(1, 2));
  EXPECT_FALSE(next(*reader));
}

TEST_F(MetricReaderTest, StepsThatARestartTookBackAreLeftOutByStepOnly) {
  record("loss", std::nullopt, {1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 2, 6, 8, 8});
  EXPECT_THAT(places(*read(over(MetricAxis::step), true)), ElementsAre(1, 2, 6, 8));
  EXPECT_THAT(places(*read(over(MetricAxis::wall), true)), SizeIs(14)) << "that time was spent";
  // What a down-sampled answer with room for all gives, too.
  JobRecord job;
  job.id = "a";
  job.restarts = 2;
  commit(change::PutJob{job});
  const auto found = simulation_.run(store_->metrics(over(MetricAxis::step))).value();
  std::vector<double> sampled;
  for (const auto& point : found.at(0).points) sampled.push_back(point.x);
  EXPECT_THAT(sampled, ElementsAre(1, 2, 6, 8));
}

TEST_F(MetricReaderTest, ARangeHoldsOnTheAxisAskedFor) {
  record("loss", std::nullopt, {1, 2, 3, 4});
  EXPECT_THAT(places(*read(over(MetricAxis::bytes, 200, 300))), ElementsAre(200, 300));
  EXPECT_THAT(places(*read(over(MetricAxis::wall, 31))), ElementsAre(40));
  const auto nothing = read(over(MetricAxis::step, 50));
  EXPECT_THAT(next(*nothing)->points, SizeIs(0)) << "a series without points in the range has one page";
  EXPECT_FALSE(next(*nothing));
}

TEST_F(MetricReaderTest, OnlyTheSeriesAskedFor) {
  record("loss", std::nullopt, {1});
  record("loss", 0, {2});
  record("accuracy", 0, {3});
  const auto reader = read({"a", {"loss"}, MetricAxis::step, {}, {}, 500, false, 0});
  EXPECT_THAT(places(*reader), ElementsAre(2));
  EXPECT_FALSE(next(*reader));
}

TEST_F(MetricReaderTest, AJobDeletedMeanwhileIsAnErrorAndNotAnotherJobsPoints) {
  record("loss", std::nullopt, {1, 2});
  const auto reader = read(over(MetricAxis::step));
  commit(change::RemoveJob{"a"});
  add_job("a");
  record("loss", std::nullopt, {5, 6});
  const auto page = simulation_.run(reader->next());
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Errc::not_found);
}

}  // namespace
}  // namespace weir::cluster
