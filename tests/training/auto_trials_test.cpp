// AutoPlan's trials, with steps that take as long as the test says.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compressors/catalog.hpp"
#include "ranks.hpp"
#include "training/exchange/auto_plan.hpp"

namespace weir::training::testing {
namespace {

constexpr std::uint32_t ranks = 8;

/// How long a step takes over the plan that was the `nth` different one to be followed, and sends gradients as `form`.
using SecondsOf = std::function<double(std::uint64_t step, std::size_t nth, Form form)>;

/// What a rank did.
struct Course {
  std::vector<std::size_t> followed;          ///< by step: which of the plans, in the order of their first steps
  std::vector<Form> forms;                    ///< by step
  std::vector<protocol::ExchangePlan> plans;  ///< whenever one was followed
  std::size_t measurements = 0;
};

/// Links over which messages cost what they cost for their number.
const GroupLinks far{.links = {.latency_seconds = 1, .seconds_per_byte = 1e-12}, .hosts = {}};
/// And for their bytes.
const GroupLinks narrow{.links = {.latency_seconds = 1e-9, .seconds_per_byte = 1}, .hosts = {}};

/// Its sums take as many messages as those of float32, and half as many bytes.
compressors::Compression halves() {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = "fp16", .params = none, .memory = {}, .memory_params = none, .setting = {}})
      .value();
}

/// The links are `links[0]` when they are measured first, then `links[1]`, and stay as the last.
Course train(collectives::Fabric& fabric, const std::vector<GroupLinks>& links, std::uint64_t steps,
             const SecondsOf& seconds_of) {
  const std::vector<NamedTensor> parameters{{"weight", at::zeros({64, 64})}};
  const std::vector<at::Tensor> values(1);
  std::vector<Mean> means(1);
  auto compression = halves();
  GatheredMean gathered_mean;
  const RoundSetting setting{.parameters = parameters,
                             .values = values,
                             .means = means,
                             .compression = compression,
                             .gathered_mean = gathered_mean,
                             .ranks = fabric.size(),
                             .rank = fabric.rank(),
                             .world = fabric.size()};
  const std::vector<std::vector<Bucket>> layouts{{{.parameters = {0}, .coded = true}, {}}};
  Course course;
  std::chrono::steady_clock::time_point now;
  AutoPlan plan(
      fabric, setting, [] { return Result<compressors::Compression>(halves()); },
      [&](collectives::Fabric&) { return links[std::min(course.measurements++, links.size() - 1)]; },
      [&now] { return now; });
  std::vector<std::vector<Route>> seen;
  EXPECT_TRUE(plan.start({.number = 0}, layouts, 0, false));
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (plan.is_new()) course.plans.push_back(plan.describe());
    const std::vector<Route> routes(plan.routes().begin(), plan.routes().end());
    if (std::ranges::find(seen, routes) == seen.end()) seen.push_back(routes);
    const auto nth = static_cast<std::size_t>(std::ranges::find(seen, routes) - seen.begin());
    course.followed.push_back(nth);
    course.forms.push_back(routes.front().form);
    const double seconds = seconds_of(step, nth, routes.front().form);
    now += std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    EXPECT_TRUE(plan.before({.number = step + 1}, seconds / 2));
  }
  return course;
}

/// What all ranks did.
Course train_all(const std::vector<GroupLinks>& links, std::uint64_t steps, const SecondsOf& seconds_of) {
  auto group = collectives::in_process_group(ranks);
  std::vector<Course> courses(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    courses[rank] = train(*group[rank], links, steps, seconds_of);
    group[rank]->close();
  });
  for (const Course& course : courses) EXPECT_EQ(course.followed, courses[0].followed);
  return courses[0];
}

constexpr std::uint64_t trials_end = 80;           ///< six trials of ten steps each are over
constexpr std::uint64_t measured_again_by = 1200;  ///< 16 windows of 64 steps later, and trials of the new plans
constexpr double usual_seconds = 0.010;

TEST(AutoPlanTrials, ThePlanWithTheShortestStepsIsFollowed) {
  const auto course = train_all({far}, trials_end, [](std::uint64_t, std::size_t nth, Form) {
    return nth == 2 ? 0.4 * usual_seconds : usual_seconds;
  });
  EXPECT_EQ(course.followed.back(), 2u);
  const auto& last = course.plans.back();
  EXPECT_TRUE(last.reason.starts_with("the fastest of ")) << last.reason;
  ASSERT_GE(last.candidates.size(), 3u);
  for (const auto& candidate : last.candidates) {
    ASSERT_TRUE(candidate.measured_seconds) << candidate.routes;
    EXPECT_NEAR(*candidate.measured_seconds, candidate.followed ? 0.4 * usual_seconds : usual_seconds, 1e-6);
  }
}

TEST(AutoPlanTrials, OfPlansThatAreAboutAsFastTheModelsFirstIsFollowed) {
  const auto course = train_all({far}, trials_end, [](std::uint64_t, std::size_t nth, Form) {
    return nth == 0 ? usual_seconds : 0.98 * usual_seconds;
  });
  EXPECT_EQ(course.followed.back(), 0u);
  EXPECT_GT(std::ranges::max(course.followed), 1u) << "others were tried";
}

/// Plans in float32 are the fastest, until all is measured again. Then the model promises twice as much of those with
/// half as many bytes, whose steps take `then` of the time.
Course measured_again(double then) {
  return train_all({far, narrow}, measured_again_by, [then](std::uint64_t step, std::size_t, Form form) {
    if (form == Form::float32) return usual_seconds;
    return (step < trials_end ? 2 : then) * usual_seconds;
  });
}

bool tried_after_measuring(const protocol::ExchangePlan& plan) {
  return plan.step > trials_end && plan.reason.starts_with("on trial");
}

TEST(AutoPlanTrials, MeasuredAgainAPlanThatIsAboutAsFastStays) {
  const auto course = measured_again(0.98);
  EXPECT_EQ(course.measurements, 2u);
  EXPECT_TRUE(std::ranges::any_of(course.plans, tried_after_measuring));
  EXPECT_EQ(course.forms[trials_end], Form::float32);
  EXPECT_EQ(course.followed.back(), course.followed[trials_end]);
}

TEST(AutoPlanTrials, MeasuredAgainAPlanThatIsSlowerGives) {
  const auto course = measured_again(0.7);
  EXPECT_EQ(course.measurements, 2u);
  EXPECT_EQ(course.forms[trials_end], Form::float32);
  EXPECT_NE(course.forms.back(), Form::float32);
}

TEST(AutoPlanTrials, StepsThatBecomeMuchSlowerAreMeasuredAgainSoon) {
  constexpr std::uint64_t steps = trials_end + 4 * 64;
  const auto as_they_were = train_all({far}, steps, [](std::uint64_t, std::size_t, Form) { return usual_seconds; });
  EXPECT_EQ(as_they_were.measurements, 1u);
  const auto slower = train_all({far}, steps, [](std::uint64_t step, std::size_t, Form) {
    return step < trials_end ? usual_seconds : 2 * usual_seconds;
  });
  EXPECT_EQ(slower.measurements, 2u);
}

}  // namespace
}  // namespace weir::training::testing
