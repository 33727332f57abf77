// When servers apply pushes and answer them: the modes' rules, without tensors or messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "base/errc.hpp"
#include "training/modes/mode.hpp"

namespace weir::training::servers {
namespace {

std::unique_ptr<PushRule> rule_of(const std::string& mode, const nlohmann::json& params, const RuleSetting& setting) {
  return modes().make(mode, params).value()->rule(setting);
}

std::vector<std::uint32_t> answered_in(const std::vector<Decision>& decisions) {
  std::vector<std::uint32_t> all;
  for (const auto& decision : decisions) all.insert(all.end(), decision.answered.begin(), decision.answered.end());
  return all;
}

/// Workers of different speeds and a rule, in a time of their own. Now and then all halt.
struct Simulation {
  static constexpr double never = std::numeric_limits<double>::infinity();

  Simulation(std::unique_ptr<PushRule> own, std::size_t workers, unsigned seed)
      : rule(std::move(own)), random(seed), clocks(workers, 0), due(workers, never), pace(workers) {
    std::uniform_real_distribution<double> slowness(1, 20);
    for (auto& one : pace) one = slowness(random);
    for (const auto worker : rule->go_on()) begin(worker);
  }

  void begin(std::uint32_t worker) {
    due[worker] = now + pace[worker] * std::uniform_real_distribution<double>(0.1, 2)(random);
    lead = std::max(lead, clocks[worker] - *std::ranges::min_element(clocks));
  }

  /// The next push. Returns false if nobody computes.
  bool push() {
    const auto next = std::ranges::min_element(due) - due.begin();
    if (due[static_cast<std::size_t>(next)] == never) return false;
    const auto worker = static_cast<std::uint32_t>(next);
    now = due[worker];
    due[worker] = never;
    ++clocks[worker];
    const auto decisions = rule->arrived(worker, 0, 0).value();
    for (const auto free : answered_in(decisions)) begin(free);
    return true;
  }

  /// All push what they are at, and nobody waits for another; then the rule says who goes on.
  void halt() {
    (void)rule->halt();
    for (std::uint32_t worker = 0; worker < due.size(); ++worker) {
      if (due[worker] == never) continue;
      ++clocks[worker];
      due[worker] = never;
      (void)rule->arrived(worker, 0, 0).value();
      (void)rule->halt();
    }
    for (const auto worker : rule->go_on()) begin(worker);
  }

  std::unique_ptr<PushRule> rule;
  std::mt19937 random;
  double now = 0;
  std::vector<std::uint64_t> clocks;
  std::vector<double> due;
  std::vector<double> pace;
  std::uint64_t lead = 0;  ///< the most that anybody was ahead of the slowest when he began a batch
};

TEST(Ssp, NobodyBeginsABatchFurtherAheadThanAllowed) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::uint64_t staleness = seed % 6;
    const std::size_t workers = 1 + seed % 7;
    Simulation simulation(
        rule_of("ssp", {{"staleness", staleness}}, {.clocks = std::vector<std::uint64_t>(workers, 0)}), workers, seed);
    for (int i = 0; i < 2000; ++i) {
      ASSERT_TRUE(simulation.push()) << "nobody goes on, seed " << seed;
      if (i % 97 == 96) simulation.halt();
    }
    EXPECT_LE(simulation.lead, staleness) << seed;
    // And they do use what they are allowed: nobody waits without need.
    EXPECT_EQ(simulation.lead, workers > 1 ? staleness : 0) << seed;
  }
}

TEST(Ssp, CountsFromTheClocksOfACheckpoint) {
  const auto rule = rule_of("ssp", {{"staleness", 2}}, {.clocks = {9, 5, 7}});
  EXPECT_EQ(rule->go_on(), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(answered_in(rule->arrived(1, 0, 0).value()), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(answered_in(rule->arrived(1, 0, 0).value()), (std::vector<std::uint32_t>{0, 1}));
}

TEST(Async, AppliesAndAnswersEachPushAtOnce) {
  Simulation simulation(rule_of("async", {}, {.clocks = {0, 0, 0}}), 3, 1);
  simulation.pace = {1, 1, 1000};
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(simulation.push());
  EXPECT_GT(simulation.lead, 100u);
  const auto decisions = simulation.rule->arrived(2, 0, 7).value();
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions[0].applied, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(decisions[0].answered, (std::vector<std::uint32_t>{2}));
}

TEST(Backup, TheFirstOfAVersionMakeTheNextAndTheRestIsDropped) {
  const auto rule = rule_of("backup", {{"backup_workers", 2}}, {.clocks = {0, 0, 0, 0, 0}});
  EXPECT_TRUE(rule->arrived(4, 0, 0).value().empty());
  EXPECT_TRUE(rule->arrived(1, 0, 0).value().empty());
  const auto made = rule->arrived(2, 0, 0).value();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].applied, (std::vector<std::uint32_t>{1, 2, 4}));
  EXPECT_EQ(made[0].answered, (std::vector<std::uint32_t>{1, 2, 4}));
  EXPECT_TRUE(made[0].tells);
  const auto late = rule->arrived(0, 0, 1).value();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_TRUE(late[0].applied.empty());
  EXPECT_EQ(late[0].dropped, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(late[0].answered, (std::vector<std::uint32_t>{0}));
  // Its next one, of the new version, counts.
  EXPECT_TRUE(rule->arrived(0, 1, 1).value().empty());
}

/// Pushes reach the second server in another order than the first one, and before or after what that has decided. What
/// counts for a version was computed on that version, as the worker has it from both.
TEST(Backup, AllServersApplyTheSamePushesInAnyOrderOfMessages) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    constexpr std::uint32_t workers = 5;
    const nlohmann::json params{{"backup_workers", 1 + seed % 4}};
    const auto first = rule_of("backup", params, {.clocks = std::vector<std::uint64_t>(workers, 0)});
    const auto second = rule_of("backup", params, {.clocks = std::vector<std::uint64_t>(workers, 0), .first = false});
    std::uint64_t version_of_first = 0;
    std::uint64_t version_of_second = 0;
    struct Message {
      std::optional<std::uint32_t> worker;  ///< its push; else a decision
      std::uint64_t version = 0;
      std::vector<std::uint32_t> members = {};
      bool late = false;  ///< the first server has dropped the push of the only member
    };
    std::vector<Message> to_first;
    std::vector<Message> pushes_to_second;
    std::vector<Message> decisions_to_second;  // in their order
    std::vector<int> missing(workers, 0);      // answers to the push of a worker
    std::vector<std::uint64_t> knows(workers, 0);
    std::vector<std::uint64_t> has_of_second(workers, 0);
    std::vector<std::vector<std::uint32_t>> made_by_first;
    std::vector<std::vector<std::uint32_t>> made_by_second;
    const auto push = [&](std::uint32_t worker) {
      to_first.push_back({worker, knows[worker]});
      pushes_to_second.push_back({worker, knows[worker]});
      missing[worker] = 2;
    };
    const auto answer = [&](std::uint32_t worker) {
      ASSERT_GT(missing[worker], 0);
      if (--missing[worker] == 0 && made_by_first.size() < 300) push(worker);
    };
    const auto take = [&](std::vector<Message>& from, std::size_t at) {
      const Message message = from[at];
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
      return message;
    };
    for (std::uint32_t worker = 0; worker < workers; ++worker) push(worker);
    const auto carry_out = [&](const std::vector<Decision>& decisions) {
      for (const auto& decision : decisions) {
        for (const auto worker : decision.applied) ASSERT_EQ(has_of_second[worker], version_of_second) << seed;
        if (!decision.applied.empty()) {
          made_by_second.push_back(decision.applied);
          ++version_of_second;
        }
        for (const auto worker : decision.answered) {
          has_of_second[worker] = version_of_second;
          answer(worker);
        }
      }
    };
    while (!to_first.empty() || !pushes_to_second.empty() || !decisions_to_second.empty()) {
      const auto choice = random() % 3;
      if (choice == 0 && !to_first.empty()) {
        const Message message = take(to_first, random() % to_first.size());
        for (const auto& decision : first->arrived(*message.worker, message.version, version_of_first).value()) {
          if (!decision.applied.empty()) {
            made_by_first.push_back(decision.applied);
            decisions_to_second.push_back({std::nullopt, version_of_first++, decision.applied});
          }
          if (!decision.dropped.empty()) {
            decisions_to_second.push_back({std::nullopt, version_of_first, decision.dropped, true});
          }
          for (const auto worker : decision.answered) {
            knows[worker] = version_of_first;
            answer(worker);
          }
        }
      } else if (choice == 1 && !pushes_to_second.empty()) {
        const Message message = take(pushes_to_second, random() % pushes_to_second.size());
        carry_out(second->arrived(*message.worker, message.version, version_of_second).value());
      } else if (choice == 2 && !decisions_to_second.empty()) {
        const Message message = take(decisions_to_second, 0);
        carry_out(message.late ? second->late(message.version, message.members.front()).value()
                               : second->decided(message.version, message.members).value());
      }
    }
    EXPECT_GE(made_by_first.size(), 300u) << seed;
    EXPECT_EQ(made_by_first, made_by_second) << seed;
  }
}

TEST(Backup, DecisionsAboutAnotherVersionAreRefused) {
  const auto second = rule_of("backup", {{"backup_workers", 1}}, {.clocks = {0, 0, 0}, .version = 4, .first = false});
  const std::vector<std::uint32_t> members{0, 2};
  const std::vector<std::uint32_t> too_many{0, 1, 2};
  EXPECT_EQ(second->decided(3, members).error().code, Errc::malformed);
  EXPECT_EQ(second->decided(4, too_many).error().code, Errc::malformed);
  EXPECT_TRUE(second->decided(4, members));
  EXPECT_EQ(second->decided(4, members).error().code, Errc::malformed);
  EXPECT_EQ(second->late(4, 1).error().code, Errc::malformed);
  EXPECT_TRUE(second->late(5, 1));
  EXPECT_EQ(second->late(5, 1).error().code, Errc::malformed);
  EXPECT_TRUE(second->arrived(0, 4, 4));
  EXPECT_EQ(second->arrived(2, 3, 4).error().code, Errc::malformed) << "it counts for version 4";
  const auto async = rule_of("async", {}, {.clocks = {0}});
  EXPECT_EQ(async->decided(0, members).error().code, Errc::malformed);
  EXPECT_EQ(async->late(0, 1).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::training::servers
