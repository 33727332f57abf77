#include "runtime/actor_system.hpp"

#include <gtest/gtest.h>

#include "tests/runtime/fixture.hpp"

namespace weir::runtime {
namespace {

TEST(Actor, AnswersALocalCall) {
  testing::Simulation simulation(1);
  ActorSystem system({"a", simulation.executor(), simulation.clock(), simulation.transport(), "s"});
  auto counter = system.spawn<CounterActor>("counter");
  ASSERT_TRUE(counter);
  EXPECT_EQ(simulation.run(counter->call<&Counter::add>(5)).value(), 5);
  EXPECT_EQ(simulation.run(counter->call<&Counter::value>()).value(), 5);
}

TEST(Actor, AnswersACallFromAnotherProcess) {
  Pair pair;
  auto counter = pair.b.spawn<CounterActor>("counter");
  auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add>(5)).value(), 5);
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add>(2)).value(), 7);
}

}  // namespace
}  // namespace weir::runtime
