#include "cluster/attempt/reports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/strand.hpp>

#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "protocol/acknowledged.hpp"
#include "tests/cluster/bare_services.hpp"
#include "tests/cluster/commit_log.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// The reports of an attempt with two workers, before a store that may refuse them.
class ReportsTest : public ::testing::Test {
 protected:
  ReportsTest() {
    services_.store = store_;
    services_.stream = std::make_shared<StreamHub>(store_, simulation_.clock(), 0);
    job_.id = "job";
    job_.spec = nlohmann::json::object();
    std::vector<Change> changes;
    changes.push_back(change::AddJob{job_, "", ""});
    EXPECT_TRUE(simulation_.run(store_->commit(std::move(changes))));
  }

  static protocol::Report report(std::uint32_t rank, std::uint64_t step) {
    protocol::Report report;
    report.job_id = "job";
    report.rank = rank;
    report.sequence = report.step = step;
    report.points.push_back({"loss", step, static_cast<double>(step), 100 * step, 2.0});
    return report;
  }
  /// Adds a report; what comes of it is known later.
  Answer add(std::uint32_t rank, std::uint64_t step) {
    return begin(services_, simulation_, reports_.add(report(rank, step)));
  }
  /// The rows of the job's own loss in the store.
  std::vector<MetricRow> losses() {
    MetricQuery query;
    query.job_id = "job";
    std::vector<MetricRow> rows;
    for (const auto& series : simulation_.run(store_->series(query)).value()) {
      if (!series.worker) rows = simulation_.run(store_->metric_rows(series, 0, 1000)).value();
    }
    return rows;
  }

  TemporaryDir dir_;
  runtime::testing::Simulation simulation_{1};
  std::shared_ptr<CommitLog> store_ =
      std::make_shared<CommitLog>(open_sqlite_store({.file = dir_.path() / "weir.db"},
                                                    net::make_strand(simulation_.executor()), simulation_.executor())
                                      .value());
  Services services_ = bare_services(simulation_);
  JobRecord job_;
  Reports reports_{services_, job_, 1, Figures(2, 2, {})};
};

const auto all = [](const std::vector<Change>&) { return true; };

TEST_F(ReportsTest, AReportThatCouldNotBeCommittedCountsOnceWhenItIsRepeated) {
  EXPECT_TRUE(**add(0, 1));
  store_->refuse(all);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*add(1, 1))->error().code, Errc::exhausted);
  EXPECT_THAT(losses(), IsEmpty());
  store_->accept();
  EXPECT_TRUE(**add(1, 1));
  ASSERT_EQ(losses().size(), 1u) << "it was the last one that step 1 waited for";
  EXPECT_EQ(losses()[0].wire_bytes, 200u);
  EXPECT_TRUE(**add(1, 1)) << "a repeat of what is committed";
  EXPECT_EQ(losses().size(), 1u);
}

TEST_F(ReportsTest, AWorkerRepeatsWhatTheStoreHasFailedWith) {
  EXPECT_TRUE(**add(0, 1));
  for (const Errc code : {Errc::io, Errc::internal}) {
    store_->refuse(all, {code, "disk I/O error"});
    const auto refused = add(1, 1);
    EXPECT_TRUE(protocol::may_be_repeated((*refused)->error())) << (*refused)->error().message();
    EXPECT_THAT((*refused)->error().message(), HasSubstr("disk I/O error"));
  }
  store_->accept();
  EXPECT_TRUE(**add(1, 1));
  EXPECT_EQ(losses().size(), 1u);
}

TEST_F(ReportsTest, AJobThatTheStoreDoesNotKnowIsNotReportedAgain) {
  for (const Errc code : {Errc::conflict, Errc::cancelled}) {
    store_->refuse(all, {code, "no more"});
    EXPECT_EQ((*add(0, 1))->error().code, code);
  }
}

TEST_F(ReportsTest, ARepeatIsNotAnsweredBeforeTheFirstIsAndNotBetter) {
  EXPECT_TRUE(**add(0, 1));
  bool is_first = true;
  store_->hold([&](const std::vector<Change>&) { return std::exchange(is_first, false); });
  const auto first = add(1, 1);
  const auto repeat = add(1, 1);  // its link broke
  EXPECT_FALSE(*first || *repeat);
  store_->refuse(all);
  store_->release();
  simulation_.settle();
  EXPECT_FALSE(**first || **repeat);
  EXPECT_THAT(losses(), IsEmpty());
}

TEST_F(ReportsTest, ARepeatThatWaitedForTheFirstCommitsNothingItself) {
  EXPECT_TRUE(**add(0, 1));
  store_->hold(all);
  const auto first = add(1, 1);
  const auto repeat = add(1, 1);
  bool is_first = true;
  store_->refuse([&](const std::vector<Change>&) { return std::exchange(is_first, false); });
  store_->release();
  simulation_.settle();
  EXPECT_FALSE(**first);
  EXPECT_EQ((*repeat)->error().code, Errc::exhausted) << "the attempt may be over by now";
  EXPECT_THAT(losses(), IsEmpty());
  EXPECT_TRUE(**add(1, 1));
  EXPECT_EQ(losses().size(), 1u);
}

}  // namespace
}  // namespace weir::cluster
