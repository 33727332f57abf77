#include "protocol/traffic.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/errc.hpp"

namespace weir::protocol {
namespace {

/// What rank 0 of three workers may report.
TrafficReport honest() {
  TrafficReport report;
  report.totals.step = 7;
  report.totals.links = {{1, {100, 200}}, {2, {300, 400}}};
  report.totals.phases = {{"dense", {400, 500}}, {"other", {0, 100}}};
  report.totals.tensors = {{"weight", {399, 499}}};
  report.totals.rest = {1, 1};
  report.sampled = StepTimeline{.step = 7, .seconds = 0.5, .dropped = 0, .spans = {{.bucket = 3, .seconds = 0.25}}};
  report.plans = {{.step = 7,
                   .reason = "the fastest of 2 tried",
                   .buckets = {{"coded", "ring", 4000}, {"bfloat16", "tree", 400}},
                   .latency_seconds = 0.0001,
                   .bytes_per_second = 1e9,
                   .candidates = {{"coded over ring, 2 buckets", 0.2, 0.25}, {"float32 over ring", 0.3, {}}}}};
  return report;
}

TEST(TrafficReport, AnHonestOneIsRight) {
  EXPECT_TRUE(check(honest(), 0, 3));
  EXPECT_TRUE(check(std::nullopt, 0, 3));
  auto most = honest();
  most.totals.tensors.assign(TrafficTotals::tensors_max, {std::string(TrafficTotals::name_bytes_max, 'x'), {}});
  most.sampled->spans.resize(StepTimeline::spans_max);
  most.slowest = most.sampled;
  ExchangePlan& plan = most.plans[0];
  plan.reason.assign(ExchangePlan::text_bytes_max, 'x');
  plan.buckets.assign(ExchangePlan::buckets_max, {std::string(ExchangePlan::name_bytes_max, 'x'), "ring", 0});
  plan.candidates.assign(ExchangePlan::candidates_max, {std::string(ExchangePlan::text_bytes_max, 'x'), 0, 0});
  most.plans.assign(TrafficReport::plans_max, plan);
  EXPECT_TRUE(check(most, 0, 3));
}

struct Forgery {
  const char* name;
  std::function<void(TrafficReport&)> forge;
};

class ForgedTraffic : public ::testing::TestWithParam<Forgery> {};

const double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    All, ForgedTraffic,
    ::testing::Values(
        Forgery{"ranks_beyond_the_world", [](TrafficReport& r) { r.totals.links[0].rank = 3; }},
        Forgery{"a_link_to_itself", [](TrafficReport& r) { r.totals.links[0].rank = 0; }},
        Forgery{"two_links_to_one", [](TrafficReport& r) { r.totals.links[0].rank = 2; }},
        Forgery{"many_links", [](TrafficReport& r) { r.totals.links.resize(1'000'000); }},
        Forgery{"counts_of_links", [](TrafficReport& r) { r.totals.links[0].bytes.sent = huge; }},
        Forgery{"many_phases",
                [](TrafficReport& r) {
                  r.totals.phases.assign(9, {"x", {}});
                }},
        Forgery{"counts_of_phases", [](TrafficReport& r) { r.totals.phases[0].bytes.received = huge; }},
        Forgery{"many_tensors",
                [](TrafficReport& r) {
                  r.totals.tensors.assign(21, {"x", {}});
                }},
        Forgery{"a_tensor_without_name", [](TrafficReport& r) { r.totals.tensors[0].name = ""; }},
        Forgery{"a_tensor_with_a_long_name", [](TrafficReport& r) { r.totals.tensors[0].name.assign(257, 'x'); }},
        Forgery{"counts_of_the_rest", [](TrafficReport& r) { r.totals.rest.sent = huge; }},
        Forgery{"the_step", [](TrafficReport& r) { r.totals.step = huge; }},
        Forgery{"many_spans", [](TrafficReport& r) { r.sampled->spans.resize(513); }},
        Forgery{"the_step_of_a_timeline", [](TrafficReport& r) { r.sampled->step = huge; }},
        Forgery{"the_length_of_a_step", [](TrafficReport& r) { r.sampled->seconds = nan; }},
        Forgery{"a_time_that_is_none", [](TrafficReport& r) { r.sampled->spans[0].begin_seconds = nan; }},
        Forgery{"a_time_before_the_step", [](TrafficReport& r) { r.sampled->spans[0].begin_seconds = -1; }},
        Forgery{"a_time_without_end", [](TrafficReport& r) { r.sampled->spans[0].seconds = HUGE_VAL; }},
        Forgery{"a_bucket", [](TrafficReport& r) { r.sampled->spans[0].bucket = 1U << 31; }},
        Forgery{"a_lane", [](TrafficReport& r) { r.sampled->spans[0].lane = 64; }},
        Forgery{"a_part", [](TrafficReport& r) { r.sampled->spans[0].part = 8; }},
        Forgery{"the_slowest_step",
                [](TrafficReport& r) {
                  r.slowest = r.sampled;
                  r.slowest->spans[0].bytes.sent = huge;
                }},
        Forgery{"many_plans", [](TrafficReport& r) { r.plans.resize(33, r.plans[0]); }},
        Forgery{"the_step_of_a_plan", [](TrafficReport& r) { r.plans[0].step = huge; }},
        Forgery{"a_plan_without_reason", [](TrafficReport& r) { r.plans[0].reason = ""; }},
        Forgery{"a_plan_with_a_long_reason", [](TrafficReport& r) { r.plans[0].reason.assign(1025, 'x'); }},
        Forgery{"a_plan_without_buckets", [](TrafficReport& r) { r.plans[0].buckets.clear(); }},
        Forgery{"a_plan_of_many_buckets",
                [](TrafficReport& r) {
                  r.plans[0].buckets.assign(513, {"coded", "ring", 0});
                }},
        Forgery{"a_bucket_without_form", [](TrafficReport& r) { r.plans[0].buckets[1].form = ""; }},
        Forgery{"a_long_form", [](TrafficReport& r) { r.plans[0].buckets[1].form.assign(65, 'x'); }},
        Forgery{"a_bucket_without_topology", [](TrafficReport& r) { r.plans[0].buckets[1].topology = ""; }},
        Forgery{"a_long_topology", [](TrafficReport& r) { r.plans[0].buckets[1].topology.assign(65, 'x'); }},
        Forgery{"the_bytes_of_a_bucket", [](TrafficReport& r) { r.plans[0].buckets[1].bytes = huge; }},
        Forgery{"many_candidates",
                [](TrafficReport& r) {
                  r.plans[0].candidates.assign(17, {"coded over ring", 0, 0});
                }},
        Forgery{"a_candidate_without_text", [](TrafficReport& r) { r.plans[0].candidates[1].routes = ""; }},
        Forgery{"a_long_candidate", [](TrafficReport& r) { r.plans[0].candidates[1].routes.assign(1025, 'x'); }},
        Forgery{"a_predicted_time", [](TrafficReport& r) { r.plans[0].candidates[0].predicted_seconds = nan; }},
        Forgery{"a_measured_time", [](TrafficReport& r) { r.plans[0].candidates[0].measured_seconds = -1; }},
        Forgery{"the_latency", [](TrafficReport& r) { r.plans[0].latency_seconds = -1; }},
        Forgery{"a_latency_that_is_none", [](TrafficReport& r) { r.plans[0].latency_seconds = nan; }},
        Forgery{"the_rate", [](TrafficReport& r) { r.plans[0].bytes_per_second = HUGE_VAL; }},
        Forgery{"a_rate_below_nothing", [](TrafficReport& r) { r.plans[0].bytes_per_second = -1; }},
        Forgery{"the_last_plan",
                [](TrafficReport& r) {
                  r.plans.push_back(r.plans[0]);
                  r.plans[1].step = huge;
                }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(ForgedTraffic, IsRefused) {
  auto report = honest();
  GetParam().forge(report);
  const auto checked = check(report, 0, 3);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Errc::invalid_argument);
}

TEST(TrafficReport, OnlyRankZeroTellsOfPlans) {
  auto report = honest();
  report.totals.links = {{0, {100, 200}}};
  EXPECT_FALSE(check(report, 1, 3));
  report.plans.clear();
  EXPECT_TRUE(check(report, 1, 3));
}

}  // namespace
}  // namespace weir::protocol
