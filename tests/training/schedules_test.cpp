#include "training/schedules/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errc.hpp"

namespace weir::training {
namespace {

constexpr ScheduleSetting setting{.steps_per_epoch = 10, .steps_total = 100, .workers = 4};

std::unique_ptr<Schedule> make(const char* name, const nlohmann::json& params) {
  return schedules().make(name, params, setting).value();
}

TEST(MultiStep, FallsAtItsMilestones) {
  const auto schedule = make("multistep", {{"milestones", {6, 3}}, {"gamma", 0.5}});
  EXPECT_EQ(schedule->factor(0), 1.0);
  EXPECT_EQ(schedule->factor(29), 1.0);
  EXPECT_EQ(schedule->factor(30), 0.5);
  EXPECT_EQ(schedule->factor(59), 0.5);
  EXPECT_EQ(schedule->factor(60), 0.25);
  EXPECT_EQ(schedule->factor(1000), 0.25);
  EXPECT_EQ(make("multistep", {{"milestones", nlohmann::json::array()}})->factor(99), 1.0);
  for (const auto& wrong : {nlohmann::json{{"milestones", {0}}}, nlohmann::json{{"milestones", "30"}}}) {
    EXPECT_EQ(schedules().make("multistep", wrong, setting).error().code, Errc::invalid_argument);
  }
}

/// Calls check(epochs, tenths, setting) for many numbers of epochs in tenths, and lengths of an epoch.
template <class Check>
void for_tenths(const Check& check) {
  for (std::uint64_t steps_per_epoch = 1; steps_per_epoch <= 120; ++steps_per_epoch) {
    for (std::uint64_t tenths = 1; tenths <= 99; ++tenths) {
      check(static_cast<double>(tenths) / 10, tenths,
            ScheduleSetting{.steps_per_epoch = steps_per_epoch, .steps_total = 100 * steps_per_epoch, .workers = 4});
    }
  }
}

/// The first step that is not before the end of so many tenths of an epoch.
std::uint64_t first_after(std::uint64_t tenths, const ScheduleSetting& of) {
  return (tenths * of.steps_per_epoch + 9) / 10;
}

TEST(MultiStep, FallsInTheStepOfItsMilestoneWhateverTheProductIsInBinary) {
  for_tenths([](double epochs, std::uint64_t tenths, const ScheduleSetting& of) {
    const nlohmann::json params = {{"milestones", {epochs}}, {"gamma", 0.5}};
    const auto schedule = schedules().make("multistep", params, of).value();
    const auto falls_in = first_after(tenths, of);
    EXPECT_EQ(schedule->factor(falls_in), 0.5) << epochs << " x " << of.steps_per_epoch;
    EXPECT_EQ(schedule->factor(falls_in - 1), 1.0) << epochs << " x " << of.steps_per_epoch;
  });
}

TEST(StepDecay, FallsInEachOfItsStepsWhateverTheProductIsInBinary) {
  for_tenths([](double epochs, std::uint64_t tenths, const ScheduleSetting& of) {
    if (tenths * of.steps_per_epoch < 10) return;  // several times in a step
    const auto schedule = schedules().make("step", {{"epochs", epochs}, {"gamma", 0.5}}, of).value();
    for (std::uint64_t times = 1; times <= 9; ++times) {
      const auto step = first_after(times * tenths, of);
      const auto factor = std::pow(0.5, times);
      EXPECT_EQ(schedule->factor(step), factor) << times << " x " << epochs << " x " << of.steps_per_epoch;
      EXPECT_EQ(schedule->factor(step - 1), 2 * factor) << times << " x " << epochs << " x " << of.steps_per_epoch;
    }
  });
}

TEST(Warmup, EndsInItsStepWhateverTheProductIsInBinary) {
  for (const char* name : {"constant", "cosine"}) {
    for_tenths([&](double epochs, std::uint64_t tenths, const ScheduleSetting& of) {
      if (tenths * of.steps_per_epoch % 10 != 0) return;  // ends between two steps
      const nlohmann::json params = {{"warmup_epochs", epochs}};
      const auto schedule = schedules().make(name, params, of).value();
      const auto ends_in = first_after(tenths, of);
      EXPECT_EQ(schedule->factor(ends_in), 1.0) << name << " " << epochs << " x " << of.steps_per_epoch;
      EXPECT_LT(schedule->factor(ends_in - 1), 1.0) << name << " " << epochs << " x " << of.steps_per_epoch;
    });
  }
}

/// Each schedule without a warm-up: its factor in some step.
struct Case {
  const char* name;
  nlohmann::json params;
};
class EverySchedule : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule,
                         ::testing::Values(Case{"constant", nlohmann::json::object()},
                                           Case{"step", {{"epochs", 4}, {"gamma", 0.5}}},
                                           Case{"multistep", {{"milestones", {4, 7}}, {"gamma", 0.5}}},
                                           Case{"cosine", nlohmann::json::object()}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EverySchedule, SaysWhetherItFalls) {
  auto params = GetParam().params;
  const bool falls = std::string(GetParam().name) != "constant";
  EXPECT_EQ(make(GetParam().name, params)->falls(), falls);
  EXPECT_EQ(schedules().find(GetParam().name)->falls, falls);
  params["warmup_epochs"] = 1;
  EXPECT_EQ(make(GetParam().name, params)->falls(), falls) << "whatever it rises to before";
}

// The last of a hundred steps has the number 99.
TEST(Schedule, FallsOnlyIfItDoesSoByTheLastStep) {
  EXPECT_FALSE(make("multistep", {{"milestones", {30, 60, 80}}})->falls());
  EXPECT_FALSE(make("multistep", {{"milestones", {30, 10}}})->falls());
  EXPECT_TRUE(make("multistep", {{"milestones", {30, 9.9}}})->falls());
  EXPECT_FALSE(make("multistep", {{"milestones", {5}}, {"gamma", 1}})->falls());
  EXPECT_FALSE(make("step", {{"epochs", 10}})->falls());
  EXPECT_TRUE(make("step", {{"epochs", 9.9}})->falls());
  EXPECT_TRUE(make("cosine", {{"warmup_epochs", 9}})->falls());
  EXPECT_FALSE(make("cosine", {{"warmup_epochs", 9.9}})->falls()) << "its last step is the first of the peak";
}

TEST_P(EverySchedule, BeginsWithALinearRise) {
  auto params = GetParam().params;
  const auto plain = make(GetParam().name, params);
  EXPECT_EQ(plain->factor(0), 1.0);
  params["warmup_epochs"] = 2;
  const auto schedule = make(GetParam().name, params);
  EXPECT_DOUBLE_EQ(schedule->factor(0), 1.0 / 21);
  EXPECT_DOUBLE_EQ(schedule->factor(9), 10.0 / 21);
  EXPECT_DOUBLE_EQ(schedule->factor(19), 20.0 / 21);
  EXPECT_DOUBLE_EQ(schedule->factor(20), 1.0);
  if (std::string(GetParam().name) == "cosine") return;  // its length is what the warm-up leaves
  for (const std::uint64_t step : {20, 39, 40, 70, 99}) EXPECT_EQ(schedule->factor(step), plain->factor(step)) << step;
}

TEST_P(EverySchedule, ScalesWithTheWorkersFromTheRateOfOne) {
  auto params = GetParam().params;
  params["scale_with_workers"] = true;
  const auto at_once = make(GetParam().name, params);
  EXPECT_EQ(at_once->factor(0), 4.0);
  params["warmup_epochs"] = 2;
  const auto schedule = make(GetParam().name, params);
  EXPECT_DOUBLE_EQ(schedule->factor(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule->factor(10), 2.5);
  EXPECT_DOUBLE_EQ(schedule->factor(19), 3.85);
  EXPECT_DOUBLE_EQ(schedule->factor(20), 4.0);
  const auto alone =
      schedules().make(GetParam().name, params, ScheduleSetting{.steps_per_epoch = 10, .steps_total = 100}).value();
  EXPECT_DOUBLE_EQ(alone->factor(0), 1.0);
  EXPECT_DOUBLE_EQ(alone->factor(20), 1.0);
}

TEST(Cosine, EndsAtZeroWhateverItsWarmUp) {
  for (const double warmup : {0.0, 2.0, 20.0}) {
    const auto schedule = make("cosine", {{"warmup_epochs", warmup}, {"scale_with_workers", true}});
    EXPECT_NEAR(schedule->factor(warmup > 10 ? 201 : 100), 0, 1e-12) << warmup;
  }
  const auto schedule = make("cosine", {{"warmup_epochs", 2}});
  EXPECT_NEAR(schedule->factor(60), 0.5, 1e-12);
}

TEST(Warmup, IsAConstantRateWithAWarmUp) {
  const auto schedule = make("warmup", {{"epochs", 2}, {"scale_with_workers", true}});
  const auto constant = make("constant", {{"warmup_epochs", 2}, {"scale_with_workers", true}});
  for (const std::uint64_t step : {0, 7, 20, 99}) EXPECT_EQ(schedule->factor(step), constant->factor(step));
  EXPECT_NEAR(make("warmup", {{"epochs", 1}})->factor(0), 1.0 / 11, 1e-12);
}

}  // namespace
}  // namespace weir::training
