#include "training/state_server/step_budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/errc.hpp"

namespace weir::training {
namespace {

/// Workers of given speeds who do as they are told, on a clock of their own.
class Cluster {
 public:
  Cluster(std::vector<double> step_seconds, std::vector<double> encode_seconds, double jitter, unsigned seed)
      : step_seconds_(std::move(step_seconds)),
        encode_seconds_(std::move(encode_seconds)),
        jitter_(jitter),
        random_(seed),
        rule_({.workers = static_cast<std::uint32_t>(step_seconds_.size())}) {}

  struct Round {
    std::vector<std::uint64_t> steps;  ///< by worker
    std::vector<double> idle;          ///< by worker: how long what it has encoded waits for that of the last one
    std::vector<std::uint32_t> asked;  ///< by worker: how often
  };

  Round next() {
    const std::size_t workers = step_seconds_.size();
    Round round{std::vector<std::uint64_t>(workers), std::vector<double>(workers), std::vector<std::uint32_t>(workers)};
    std::vector<double> due(workers);  // when each asks next
    for (double& time : due) time = begin_ + 1e-3 * uniform_(random_);
    std::vector<double> took(workers, 0.0);
    std::vector<double> over(workers, std::numeric_limits<double>::infinity());
    for (std::size_t ready = 0; ready < workers;) {
      const auto first = static_cast<std::size_t>(std::ranges::min_element(due) - due.begin());
      const WorkerState state{.round = round_,
                              .steps = round.steps[first],
                              .step_seconds = took[first],
                              .encode_seconds = encode_seconds_[first],
                              .link_seconds = 100};  // of no account
      const auto more = rule_.more(static_cast<std::uint32_t>(first), state, due[first]);
      EXPECT_TRUE(more.has_value()) << more.error().message();
      ++round.asked[first];
      if (*more == 0) {
        over[first] = due[first] + encode_seconds_[first];
        due[first] = std::numeric_limits<double>::infinity();
        ++ready;
        continue;
      }
      took[first] = step_seconds_[first] * (1 + jitter_ * uniform_(random_));
      due[first] += static_cast<double>(*more) * took[first];
      round.steps[first] += *more;
    }
    begin_ = *std::ranges::max_element(over);
    for (std::size_t i = 0; i < workers; ++i) round.idle[i] = begin_ - over[i];
    ++round_;
    return round;
  }

 private:
  const std::vector<double> step_seconds_;
  const std::vector<double> encode_seconds_;
  const double jitter_;
  std::mt19937 random_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  StepBudget rule_;
  std::uint64_t round_ = 0;
  double begin_ = 0;
};

TEST(StepBudget, TheFastMakeAsManyAsTheSlowestTakesTimeForOne) {
  Cluster cluster({0.1, 0.1, 0.25, 1.0}, {0, 0, 0, 0}, 0, 1);
  EXPECT_EQ(cluster.next().steps, (std::vector<std::uint64_t>{1, 1, 1, 1})) << "nothing is known yet";
  for (int i = 0; i < 10; ++i) {
    const auto round = cluster.next();
    EXPECT_EQ(round.steps[3], 1U);
    EXPECT_GE(round.steps[0], 9U);
    EXPECT_LE(round.steps[0], 10U);
    EXPECT_GE(round.steps[2], 3U);
    EXPECT_LE(round.steps[2], 4U);
  }
}

TEST(StepBudget, NobodyIsIdleForMoreThanAStepOfItsOwn) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    const std::size_t workers = 2 + seed % 7;
    std::vector<double> steps;
    std::vector<double> encoding;
    for (std::size_t i = 0; i < workers; ++i) {
      steps.push_back(std::exp(-4 * uniform(random)));  // the fastest 50 times as fast as the slowest
      encoding.push_back(0.2 * uniform(random));
    }
    const double slowest = *std::ranges::max_element(steps);
    const double jitter = 0.05;
    Cluster cluster(steps, encoding, jitter, seed);
    for (int i = 0; i < 20; ++i) {
      const auto round = cluster.next();
      if (i < 3) continue;  // it has not seen enough of them
      for (std::size_t worker = 0; worker < workers; ++worker) {
        // Nor must whoever encodes more slowly than the others be waited for, but for the step that everyone makes.
        const double bound = steps[worker] * (1 + jitter) + 2 * jitter * slowest + 0.2 + 1e-3;
        EXPECT_LE(round.idle[worker], bound) << "seed " << seed << ", round " << i << ", worker " << worker;
        EXPECT_GE(round.steps[worker], 1U);
        EXPECT_LE(round.asked[worker], 6U) << "a few questions, not one a step";
      }
    }
  }
}

TEST(StepBudget, WhoEncodesSlowlyBeginsEarlier) {
  Cluster cluster({0.1, 0.1, 1.0}, {0, 0.5, 0}, 0, 1);
  for (int i = 0; i < 3; ++i) cluster.next();
  const auto round = cluster.next();
  EXPECT_GE(round.steps[0], 9U);
  EXPECT_LE(round.steps[1], 5U);
  EXPECT_LE(round.idle[0], 0.21);
  EXPECT_LE(round.idle[1], 0.21);
}

TEST(StepBudget, ASlowFirstStepIsForgotten) {
  StepBudget rule({.workers = 2});
  EXPECT_EQ(*rule.more(0, {}, 0), 1U);
  EXPECT_EQ(*rule.more(1, {}, 0), 1U);
  EXPECT_EQ(*rule.more(0, {.steps = 1, .step_seconds = 100}, 100), 0U);
  EXPECT_EQ(*rule.more(1, {.steps = 1, .step_seconds = 100}, 100), 0U);
  EXPECT_EQ(*rule.more(0, {.round = 1}, 100), 1U);
  EXPECT_EQ(*rule.more(0, {.round = 1, .steps = 1, .step_seconds = 1}, 101), 100U) << "the other one is taken for slow";
  EXPECT_DOUBLE_EQ(rule.step_seconds(0), 1);
  EXPECT_DOUBLE_EQ(rule.step_seconds(1), 100);
}

TEST(StepBudget, HasALimit) {
  StepBudget rule({.workers = 2, .steps_max = 7});
  for (std::uint64_t round = 0; round < 3; ++round) {
    const double begin = 1000.0 * static_cast<double>(round);
    std::uint64_t fast = *rule.more(0, {.round = round}, begin);
    EXPECT_EQ(*rule.more(1, {.round = round}, begin), 1U);
    while (const auto more = *rule.more(0, {.round = round, .steps = fast, .step_seconds = 0.1}, begin + 0.1))
      fast += more;
    EXPECT_LE(fast, 7U);
    EXPECT_EQ(*rule.more(1, {.round = round, .steps = 1, .step_seconds = 100}, begin + 100), 0U);
  }
}

TEST(StepBudget, ARoundHasNoMoreStepsThanAreLeft) {
  for (std::uint64_t left = 0; left <= 30; ++left) {
    StepBudget rule({.workers = 3});
    for (std::uint32_t worker = 0; worker < 3; ++worker) {
      EXPECT_EQ(*rule.more(worker, {}, 0), 1U);
      EXPECT_EQ(*rule.more(worker, {.steps = 1, .step_seconds = worker == 0 ? 20.0 : 1.0}, 20), 0U);
    }
    std::uint64_t granted = 0;
    for (const std::uint32_t worker : {1U, 0U, 2U}) {
      const auto more = *rule.more(worker, {.round = 1, .left = left}, 20);
      EXPECT_GE(more, 1U) << "everyone makes a step";
      granted += more;
    }
    EXPECT_EQ(granted, std::max<std::uint64_t>(left, 3)) << "and all that are left are made";
  }
}

TEST(StepBudget, RefusesWorkersThatDoNotAgreeOnWhatIsLeft) {
  StepBudget rule({.workers = 2});
  EXPECT_EQ(*rule.more(0, {.left = 8}, 0), 1U);
  const auto other = rule.more(1, {.left = 9}, 0);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Errc::malformed);
  EXPECT_NE(other.error().message().find("9 steps that are left in round 0 where others say 8"), std::string::npos);
}

TEST(StepBudget, RefusesWhatCannotBe) {
  const auto refused = [](const WorkerState& state, std::uint32_t worker = 0) {
    StepBudget rule({.workers = 2});
    EXPECT_EQ(*rule.more(0, {}, 0), 1U);
    const auto more = rule.more(worker, state, 1);
    return !more && more.error().code == Errc::malformed &&
           more.error().message().find("state server") != std::string::npos;
  };
  EXPECT_TRUE(refused({}, 2));
  EXPECT_TRUE(refused({}, 4'000'000'000));
  EXPECT_TRUE(refused({.steps = 0})) << "it was granted one";
  EXPECT_TRUE(refused({.steps = 2}));
  EXPECT_TRUE(refused({.round = 1}));
  EXPECT_TRUE(refused({.round = ~std::uint64_t{0}, .steps = 1}));
  EXPECT_TRUE(refused({.steps = 1, .step_seconds = -1}));
  EXPECT_TRUE(refused({.steps = 1, .step_seconds = std::nan("")}));
  EXPECT_TRUE(refused({.steps = 1, .encode_seconds = std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(refused({.steps = 1, .link_seconds = -1}));
  EXPECT_TRUE(refused({.steps = 1, .step_seconds = 1e300}));
  EXPECT_TRUE(refused({.steps = 1, .share = 0}));
  EXPECT_TRUE(refused({.steps = 1, .share = 1.5}));
  EXPECT_TRUE(refused({.steps = 1, .share = std::nan("")}));
  EXPECT_TRUE(refused({.steps = 1, .link_seconds = 1e8, .share = 1e-9})) << "the link of all that is chosen";
  EXPECT_FALSE(refused({.steps = 1, .step_seconds = 1e9}));

  StepBudget rule({.workers = 2});
  EXPECT_EQ(*rule.more(0, {}, 0), 1U);
  EXPECT_EQ(*rule.more(0, {.steps = 1, .step_seconds = 1}, 1), 0U);
  const auto ahead = rule.more(0, {.round = 1}, 2);
  ASSERT_FALSE(ahead.has_value()) << "worker 1 was not ready: there was no exchange";
  EXPECT_EQ(ahead.error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::training
