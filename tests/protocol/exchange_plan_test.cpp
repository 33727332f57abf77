#include "protocol/exchange_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::protocol {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ExchangePlan, BucketsThatTravelAlikeAreCountedTogether) {
  ExchangePlan plan;
  EXPECT_THAT(routes_of(plan), IsEmpty());
  plan.buckets = {{"float32", "tree", 5}, {"bfloat16", "ring", 100}, {"coded", "ring", 30}, {"bfloat16", "ring", 200}};
  EXPECT_THAT(routes_of(plan), ElementsAre(RouteShare{"bfloat16", "ring", 2, 300}, RouteShare{"coded", "ring", 1, 30},
                                           RouteShare{"float32", "tree", 1, 5}));
  EXPECT_EQ(to_string(routes_of(plan)),
            "bfloat16 over ring, 2 buckets; coded over ring, 1 bucket; "
            "float32 over tree, 1 bucket");
}

TEST(ExchangePlan, ItsTextHasAnEnd) {
  ExchangePlan plan;
  for (std::size_t i = 0; i < ExchangePlan::buckets_max; ++i) plan.buckets.push_back({std::to_string(i), "ring", 0});
  EXPECT_EQ(to_string(routes_of(plan)).size(), ExchangePlan::text_bytes_max);
}

TEST(ExchangePlan, IsOnTrialAsLongAsACandidateHasNotBeenTried) {
  ExchangePlan plan;
  EXPECT_FALSE(is_on_trial(plan)) << "a fixed topology has no candidates";
  plan.candidates = {{"coded over ring, 1 bucket", 0.1, 0.2}, {"float32 over ring, 1 bucket", 0.3, {}}};
  EXPECT_TRUE(is_on_trial(plan));
  plan.candidates[1].measured_seconds = 0.25;
  EXPECT_FALSE(is_on_trial(plan));
}

}  // namespace
}  // namespace weir::protocol
