#include "actors/traffic_log.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "collectives/transports/in_process.hpp"
#include "training/exchange/step_trace.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;

protocol::ExchangePlan plan(std::uint64_t step, const std::string& reason) {
  protocol::ExchangePlan plan;
  plan.step = step;
  plan.reason = reason;
  return plan;
}

/// A log whose steps take as long as a test says.
class TrafficLogTest : public ::testing::Test {
 protected:
  /// Returns the number of the step that was sampled for it, or 0.
  std::uint64_t add(std::uint64_t step, std::chrono::duration<double> length) {
    now_ += std::chrono::duration_cast<TrafficLog::Time::duration>(length);
    log_.add(step, length.count(), *group_[0], &trace_, now_);
    last_ = log_.take();
    return last_ ? last_->sampled->step : 0;
  }

  std::vector<std::unique_ptr<collectives::Fabric>> group_ = collectives::in_process_group(1);
  training::StepTrace trace_{*group_[0], {}, 0};
  TrafficLog::Time now_{};
  TrafficLog log_;
  std::optional<protocol::TrafficReport> last_;
};

TEST_F(TrafficLogTest, SamplesAStepEveryOneOrTwoSeconds) {
  std::vector<std::uint64_t> sampled;
  for (std::uint64_t step = 1; step <= 10'000; ++step) {
    if (const auto found = add(step, 10ms); found != 0) sampled.push_back(found);
  }
  ASSERT_GE(sampled.size(), 50U);
  EXPECT_LE(sampled.size(), 100U);
  for (const auto step : sampled) EXPECT_EQ(step % 128, 0U);
}

TEST_F(TrafficLogTest, SamplesTheSameStepsOnARankThatIsNotQuiteAsFast) {
  std::vector<std::uint64_t> sampled;
  std::vector<std::uint64_t> of_other;
  TrafficLog other;
  TrafficLog::Time time{};
  for (std::uint64_t step = 1; step <= 3000; ++step) {
    if (const auto found = add(step, 10ms); found != 0) sampled.push_back(found);
    time += 10'300us;
    other.add(step, 0.0103, *group_[0], &trace_, time);
    if (const auto report = other.take()) of_other.push_back(report->sampled->step);
  }
  EXPECT_EQ(sampled, of_other);
}

TEST_F(TrafficLogTest, SamplesEveryStepOfASlowJob) {
  for (std::uint64_t step = 7; step < 20; ++step) EXPECT_EQ(add(step, 3s), step);
}

TEST_F(TrafficLogTest, TellsOfTheSlowestStepOnceAndNeverOfTheFirst) {
  EXPECT_EQ(add(1, 90s), 1U);
  EXPECT_FALSE(last_->slowest);
  EXPECT_EQ(add(2, 3s), 2U);
  ASSERT_TRUE(last_->slowest);
  EXPECT_EQ(last_->slowest->step, 2U);
  EXPECT_EQ(add(3, 2s), 3U);
  EXPECT_FALSE(last_->slowest);
  EXPECT_EQ(add(4, 5s), 4U);
  ASSERT_TRUE(last_->slowest);
  EXPECT_EQ(last_->slowest->seconds, 5);
}

TEST_F(TrafficLogTest, TheLastStepIsReportedWhateverItsNumber) {
  for (std::uint64_t step = 1; step <= 1001; ++step) add(step, 1ms);
  EXPECT_FALSE(last_);
  log_.finish(*group_[0], &trace_);
  const auto report = log_.take();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->sampled->step, 1001U);
  EXPECT_EQ(report->totals.step, 1001U);
  EXPECT_FALSE(log_.take());
}

TEST_F(TrafficLogTest, PlansGoWithTheNextReportInOrder) {
  add(1, 10ms);
  log_.planned(plan(1, "first"));
  log_.planned(plan(1, "second"));
  EXPECT_FALSE(log_.take()) << "a plan alone is no report";
  ASSERT_NE(add(2, 2s), 0U);
  ASSERT_EQ(last_->plans.size(), 2U);
  EXPECT_EQ(last_->plans[0].reason, "first");
  EXPECT_EQ(last_->plans[1].reason, "second");
  ASSERT_NE(add(3, 2s), 0U);
  EXPECT_TRUE(last_->plans.empty()) << "they were told";
}

TEST_F(TrafficLogTest, PlansStayUntilAReportIsTaken) {
  log_.planned(plan(0, "first"));
  now_ += 2s;
  log_.add(1, 2, *group_[0], &trace_, now_);
  log_.planned(plan(1, "second"));
  ASSERT_NE(add(2, 2s), 0U) << "which replaces a report that nobody has taken";
  ASSERT_EQ(last_->plans.size(), 2U);
  EXPECT_EQ(last_->plans[0].reason, "first");
}

TEST_F(TrafficLogTest, OfManyPlansTheLatestAreReported) {
  constexpr std::uint64_t most = protocol::TrafficReport::plans_max;
  for (std::uint64_t i = 0; i < most + 3; ++i) log_.planned(plan(i, "x"));
  ASSERT_NE(add(1, 2s), 0U);
  ASSERT_EQ(last_->plans.size(), most);
  EXPECT_EQ(last_->plans.front().step, 3U);
  EXPECT_EQ(last_->plans.back().step, most + 2);
}

TEST_F(TrafficLogTest, WithoutBucketsTheTotalsAreReportedAlone) {
  log_.add(7, 0.5, *group_[0], nullptr, now_);
  now_ += 2s;
  log_.add(8, 1.5, *group_[0], nullptr, now_);
  const auto report = log_.take();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->totals.step, 8U);
  EXPECT_FALSE(report->sampled);
  EXPECT_FALSE(report->slowest);
}

TEST_F(TrafficLogTest, WithoutAStepThereIsNothing) {
  log_.finish(*group_[0], &trace_);
  EXPECT_FALSE(log_.take());
}

}  // namespace
}  // namespace weir::actors
