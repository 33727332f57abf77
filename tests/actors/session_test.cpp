#include "actors/session.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/trainer.hpp"
#include "office.hpp"

namespace weir::actors {
namespace {

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
    return {.job_id = "job",
            .spec = spec.dump(),
            .rank = 0,
            .world = 1,
            .members = 1,
            .role = protocol::Role::worker,
            .attempt = 1,
            .group_secret = "group",
            .listen_host = "127.0.0.1",
            .resume_bytes = 0};
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

}  // namespace
}  // namespace weir::actors
