#include "actors/session.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "actors/trainer.hpp"
#include "base/errc.hpp"
#include "office.hpp"

namespace weir::actors {
namespace {

protocol::Assignment assignment_of(const nlohmann::json& spec, std::uint32_t rank, std::uint32_t world) {
  return {.job_id = "job",
          .spec = spec.dump(),
          .rank = rank,
          .world = world,
          .members = world,
          .role = protocol::Role::worker,
          .attempt = 1,
          .group_secret = "group",
          .listen_host = "127.0.0.1",
          .resume_bytes = 0};
}

/// A worker that trains alone, and wants to stop when a model is evaluated.
class Alone {
 public:
  explicit Alone(std::uint64_t evaluate_every)
      : session_(assignment(evaluate_every), trainer_role(),
                 {.checkpoint = [this](const Segment&, std::uint64_t) { session_.share_delivered(); },
                  .evaluate =
                      [this](const Segment&, const protocol::MetricPoint& at) {
                        evaluated.push_back(at.step);
                        session_.stop();
                      }}) {}

  protocol::TrainingEnd train() {
    session_.prepare({}).value();
    session_.join({}).value();
    return session_.train();
  }
  std::vector<protocol::MetricPoint> points() { return session_.metrics().take(); }

  std::vector<std::uint64_t> evaluated;  ///< steps

 private:
  static protocol::Assignment assignment(std::uint64_t evaluate_every) {
    auto spec = testing::job("none");
    spec["training"]["mode"] = "local";
    spec["training"]["epochs"] = 1000;
    spec["resources"]["workers"] = 1;
    spec["evaluation"]["every_steps"] = evaluate_every;
    spec["checkpoint"]["every_steps"] = 0;
    return assignment_of(spec, 0, 1);
  }

  Session session_;
};

TEST(Session, AModelIsEvaluatedOnceWhereTheTrainingStops) {
  Alone alone(7);
  const auto end = alone.train();
  EXPECT_EQ(end.outcome, protocol::Outcome::stopped) << end.cause;
  EXPECT_EQ(end.step, 7U);
  EXPECT_EQ(alone.evaluated, (std::vector<std::uint64_t>{7}));
}

TEST(Session, ReportsAlsoTheStepsSinceTheLastPoint) {
  constexpr std::uint64_t last = 2 * Metrics::points_per_doubling + 1;  // points are at even steps by now
  Alone alone(last);
  EXPECT_EQ(alone.train().step, last);
  std::uint64_t newest = 0;
  for (const auto& point : alone.points()) {
    if (point.name == "loss") newest = point.step;
  }
  EXPECT_EQ(newest, last);
}

/// A worker on a device that has no room for what is exchanged.
class WithoutRoom final : public Role {
 public:
  Result<void> restore(const Segment&) override { return {}; }
  Result<void> join(collectives::Fabric&) override {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2.00 GiB.");
    return {};
  }
  Result<bool> run(training::Progress&) override { return false; }
  std::uint64_t step() const override { return 0; }
  std::uint64_t steps_total() const override { return 1; }
  std::uint64_t parameters() const override { return 1; }
  bool holds_model() const override { return false; }
};

TEST(Session, ADeviceWithoutRoomForTheExchangeEndsTheJoiningOfAllRanks) {
  const auto make_without_room = [](const protocol::JobSpec&, const protocol::Assignment&) {
    return Result<std::unique_ptr<Role>>(std::make_unique<WithoutRoom>());
  };
  const auto spec = testing::job("none");
  Session peer(assignment_of(spec, 1, 2), trainer_role(), {});
  std::future<Result<void>> of_peer;  // which ends if the other session does
  Session without(assignment_of(spec, 0, 2), make_without_room, {});
  const std::vector endpoints{without.prepare({}).value().endpoint, peer.prepare({}).value().endpoint};
  of_peer = std::async(std::launch::async, [&] { return peer.join(endpoints); });
  const auto joined = without.join(endpoints);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::exhausted);
  EXPECT_NE(joined.error().context.find("2.00 GiB"), std::string::npos) << joined.error().context;
  EXPECT_EQ(joined.error().context.find('\n'), std::string::npos) << joined.error().context;
  const auto told = of_peer.get();
  ASSERT_FALSE(told);
  EXPECT_NE(told.error().message().find("rank 0"), std::string::npos) << told.error().message();
}

}  // namespace
}  // namespace weir::actors
