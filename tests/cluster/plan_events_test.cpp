#include "cluster/plan_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::cluster {
namespace {

using protocol::ExchangePlan;
using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;
using testing::SizeIs;

ExchangePlan plan(std::uint64_t step, const std::string& topology, const std::string& reason, bool on_trial) {
  ExchangePlan plan;
  plan.step = step;
  plan.reason = reason;
  plan.buckets = {{"coded", topology, 400}, {"coded", topology, 300}, {"float32", "tree", 4}};
  plan.candidates.push_back({.routes = "coded over " + topology, .predicted_seconds = 0.1, .measured_seconds = {}});
  if (!on_trial) plan.candidates.back().measured_seconds = 0.2;
  return plan;
}

std::vector<std::string> add(PlanEvents& events, const std::vector<ExchangePlan>& plans) { return events.add(plans); }

TEST(PlanEvents, TellTheFirstPlanAndWhatIsFollowedAfterTrials) {
  PlanEvents events;
  EXPECT_THAT(add(events, {plan(0, "ring", "the fastest by the model", true), plan(10, "butterfly", "on trial", true)}),
              ElementsAre("from step 1 on: coded over ring, 2 buckets; float32 over tree, 1 bucket "
                          "(the fastest by the model)"));
  EXPECT_THAT(add(events, {plan(20, "two_hop", "on trial", true)}), IsEmpty());
  EXPECT_THAT(add(events, {plan(30, "butterfly", "the fastest of 3 tried: 152 ms a step", false)}),
              ElementsAre("from step 31 on: coded over butterfly, 2 buckets; float32 over tree, 1 bucket "
                          "(the fastest of 3 tried: 152 ms a step)"));
}

TEST(PlanEvents, TellThatTheFirstPlanHasProvedTheBest) {
  PlanEvents events;
  EXPECT_THAT(add(events, {plan(0, "ring", "the fastest by the model", true)}), SizeIs(1));
  EXPECT_THAT(add(events, {plan(20, "ring", "the fastest of 2 tried", false)}), SizeIs(1));
}

TEST(PlanEvents, DoNotRepeatWhatIsFollowedStill) {
  PlanEvents events;
  EXPECT_THAT(add(events, {plan(0, "ring", "it is fixed", false)}), SizeIs(1));
  EXPECT_THAT(add(events, {plan(1024, "tree", "on trial, after measuring again", true)}), IsEmpty());
  EXPECT_THAT(add(events, {plan(1034, "ring", "the fastest of 2 tried", false)}), IsEmpty());
  EXPECT_THAT(add(events, {plan(2048, "tree", "the fastest of 2 tried", false)}), SizeIs(1));
}

TEST(PlanEvents, HaveAnEnd) {
  PlanEvents events;
  std::vector<std::string> told;
  for (std::uint64_t step = 0; step < 2 * PlanEvents::events_max; ++step) {
    for (auto& message : add(events, {plan(step, step % 2 == 0 ? "ring" : "tree", "the fastest", false)})) {
      told.push_back(std::move(message));
    }
  }
  ASSERT_THAT(told, SizeIs(PlanEvents::events_max));
  EXPECT_THAT(told[PlanEvents::events_max - 2], EndsWith("(the fastest)"));
  EXPECT_THAT(told.back(), EndsWith("(the fastest); later changes are not listed here"));
}

}  // namespace
}  // namespace weir::cluster
