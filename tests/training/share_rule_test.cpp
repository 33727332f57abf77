#include "training/state_server/share_rule.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weir::training {
namespace {

/// Workers that do as they are told: seconds to encode, and in which their links carry all that is chosen.
struct Workers {
  std::vector<double> encode;
  std::vector<double> link;
  double slowest_step = 0;
};

std::vector<double> shares_after(const Workers& workers, int rounds) {
  const auto count = static_cast<std::uint32_t>(workers.encode.size());
  ShareRule rule(count);
  for (int round = 0; round < rounds; ++round) {
    for (std::uint32_t worker = 0; worker < count; ++worker) {
      const double share = rule.share(worker);
      rule.learn(
          worker,
          {.encode_seconds = workers.encode[worker], .link_seconds = share * workers.link[worker], .share = share},
          workers.slowest_step);
      EXPECT_GE(rule.share(worker), ShareRule::share_min);
      EXPECT_LE(rule.share(worker), 1);
    }
  }
  std::vector<double> shares;
  for (std::uint32_t worker = 0; worker < count; ++worker) shares.push_back(rule.share(worker));
  return shares;
}

TEST(ShareRule, ASlowLinkIsAsLongAtWorkAsTheOthers) {
  const auto shares = shares_after({.encode = {0.1, 0.1, 0.1}, .link = {0.4, 0.4, 2.0}}, 60);
  EXPECT_EQ(shares[0], 1);
  EXPECT_EQ(shares[1], 1);
  EXPECT_NEAR(shares[2], (0.5 - 0.1) / 2.0, 1e-3);
}

TEST(ShareRule, ItIsReachedStepByStep) {
  const Workers workers{.encode = {0.1, 0.1}, .link = {0.4, 2.0}};
  EXPECT_EQ(shares_after(workers, 0), (std::vector<double>{1, 1}));
  double before = 1;
  for (int rounds = 1; rounds < 10; ++rounds) {
    const double now = shares_after(workers, rounds)[1];
    EXPECT_LT(now, before);
    EXPECT_GT(now, 0.6 * before) << "not at once";
    before = now;
  }
}

TEST(ShareRule, TimeToEncodeIsNotLeftForTheLink) {
  const auto shares = shares_after({.encode = {0.1, 0.1, 0.3}, .link = {0.4, 0.4, 2.0}}, 60);
  EXPECT_NEAR(shares[2], (0.5 - 0.3) / 2.0, 1e-3);
  EXPECT_NEAR(shares_after({.encode = {0.1, 0.1, 3.0}, .link = {0.4, 0.4, 2.0}}, 60)[2], ShareRule::share_min, 1e-6);
}

TEST(ShareRule, AnExchangeThatIsShortBesideAStepIsLeftAsItIs) {
  const Workers workers{.encode = {0.1, 0.1}, .link = {0.4, 2.0}};
  EXPECT_EQ(shares_after({workers.encode, workers.link, 21.0}, 60), (std::vector<double>{1, 1}));
  EXPECT_NEAR(shares_after({workers.encode, workers.link, 11.0}, 60)[1], (1.1 - 0.1) / 2.0, 1e-3);
}

TEST(ShareRule, AWorkerThatIsSlowToEncodeSendsAllOverALinkLikeTheOthers) {
  EXPECT_EQ(shares_after({.encode = {0.1, 0.1, 3.0}, .link = {0.4, 0.4, 0.45}}, 20), (std::vector<double>{1, 1, 1}));
}

TEST(ShareRule, WaitsUntilAllAreKnown) {
  ShareRule rule(2);
  const WorkerState slow{.encode_seconds = 0.1, .link_seconds = 10};
  for (int i = 0; i < 5; ++i) rule.learn(0, slow, 0);
  rule.learn(1, {}, 0);  // it has been through no exchange
  EXPECT_EQ(rule.share(0), 1);
  rule.learn(1, {.encode_seconds = 0.1, .link_seconds = 0.1}, 0);
  rule.learn(0, slow, 0);
  EXPECT_LT(rule.share(0), 1);
}

TEST(ShareRule, HasALimit) {
  const auto shares = shares_after({.encode = {0, 0, 0}, .link = {1e-9, 1e-9, 1e9}}, 100);
  EXPECT_NEAR(shares[2], ShareRule::share_min, 1e-6);
  EXPECT_EQ(shares_after({.encode = {1, 1}, .link = {0, 0}}, 5), (std::vector<double>{1, 1})) << "links of any rate";
}

}  // namespace
}  // namespace weir::training
