#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/fixture.hpp"

namespace weir::runtime {
namespace {

TEST(Actor, AnswersCallsHereAndThere) {
  Pair pair;
  auto local = pair.b.spawn<CounterActor>("counter");
  ASSERT_TRUE(local);
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  EXPECT_EQ(pair.simulation.run(local->call<&Counter::add>(5)).value(), 5);
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add>(2)).value(), 7);
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::value>()).value(), 7) << "a method without a coroutine";
}

TEST(Actor, LocalCallsPassValuesWithoutSerializing) {
  Pair pair;
  auto counter = pair.a.spawn<CounterActor>("counter");
  const Segment bytes = Segment::own(Bytes(100));
  const auto back = pair.simulation.run(counter->call<&Counter::echo>(bytes));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bytes().data(), bytes.bytes().data());
}

TEST(Actor, ErrorsAndExceptionsBecomeErrorsOfTheCaller) {
  Pair pair;
  auto counter = pair.b.spawn<CounterActor>("counter");
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  for (const ActorRef<Counter>& ref : {counter->as<Counter>(), remote}) {
    const auto failed = pair.simulation.run(ref.call<&Counter::fail>("not now"));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error(), Error(Errc::conflict, "not now"));
    const auto thrown = pair.simulation.run(ref.call<&Counter::fail>("throw"));
    ASSERT_FALSE(thrown);
    EXPECT_EQ(thrown.error().code, Errc::internal);
    EXPECT_NE(thrown.error().context.find("thrown inside"), std::string::npos);
  }
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add>(1)).value(), 1) << "the actor goes on";
}

TEST(Actor, UnknownActorsAndMethodsAreNotFound) {
  Pair pair;
  auto counter = pair.b.spawn<CounterActor>("counter");
  const auto code = [&](const ActorRef<Counter>& ref) {
    return pair.simulation.run(ref.call<&Counter::value>()).error().code;
  };
  EXPECT_EQ(code(pair.a.find<Counter>(pair.b.id(), "nobody")), Errc::not_found);
  EXPECT_EQ(code(pair.b.find<Counter>(pair.b.id(), "nobody")), Errc::not_found);
  EXPECT_EQ(code(ActorRef<Counter>()), Errc::not_found);
  EXPECT_EQ(code(pair.a.find<Counter>({12345}, "counter")), Errc::peer_lost);

  const auto wrong = pair.a.ref<Other>(pair.b.id(), counter->address().actor);
  EXPECT_EQ(pair.simulation.run(wrong.call<&Other::ask>()).error().code, Errc::not_found);
  const auto wrong_here = pair.b.ref<Other>(pair.b.id(), counter->address().actor);
  EXPECT_EQ(pair.simulation.run(wrong_here.call<&Other::ask>()).error().code, Errc::not_found);
}

TEST(Actor, NamesAreUnique) {
  Pair pair;
  ASSERT_TRUE(pair.a.spawn<CounterActor>("counter"));
  const auto second = pair.a.spawn<CounterActor>("counter");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::conflict);
  EXPECT_TRUE(pair.a.spawn<CounterActor>(""));
  EXPECT_TRUE(pair.a.spawn<CounterActor>("")) << "any number of actors without a name";
}

/// Notes that actors of two other processes leave with one actor, over one seed's schedule.
std::vector<std::string> notes_of(std::uint64_t seed) {
  std::vector<std::string> notes;
  Pair pair(seed);
  ActorSystem c({"c", pair.simulation.executor(), pair.simulation.clock(), pair.simulation.transport(), "secret"});
  auto at = pair.b.listen(Endpoint("b", 0));
  EXPECT_TRUE(pair.simulation.run(c.connect(*at)));
  EXPECT_TRUE(pair.b.spawn<CounterActor>("counter", &notes));
  const auto from_a = pair.a.find<Counter>(pair.b.id(), "counter");
  const auto from_c = c.find<Counter>(pair.b.id(), "counter");
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(from_a.tell<&Counter::note>("a" + std::to_string(i)));
    EXPECT_TRUE(from_c.tell<&Counter::note>("c" + std::to_string(i)));
    if (i % 5 == 0) pair.simulation.settle();
  }
  pair.simulation.settle();
  return notes;
}

TEST(Actor, MessagesOfOneSenderArriveInOrder) {
  bool schedules_differ = false;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto notes = notes_of(seed);
    ASSERT_EQ(notes.size(), 40u);
    for (const char sender : {'a', 'c'}) {
      std::vector<std::string> own;
      std::ranges::copy_if(notes, std::back_inserter(own), [&](const auto& n) { return n[0] == sender; });
      for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i], sender + std::to_string(i)) << "seed " << seed;
    }
    schedules_differ = schedules_differ || notes != notes_of(1);
  }
  EXPECT_TRUE(schedules_differ) << "the seed chooses the order between senders";
}

TEST(Actor, OneSeedIsOneSchedule) { EXPECT_EQ(notes_of(7), notes_of(7)); }

TEST(Actor, AFullMailboxRefuses) {
  Pair pair;
  auto counter = pair.b.spawn_with<CounterActor>({.name = "counter", .mailbox_max = 3});
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  std::vector<std::unique_ptr<Started<int>>> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(std::make_unique<Started<int>>(pair, remote.call<&Counter::add_slowly>(1, 1000)));
  }
  pair.simulation.settle();
  const auto refused = std::ranges::count_if(
      calls, [](const auto& c) { return c->result && c->result->error().code == Errc::mailbox_full; });
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(counter->tell<&Counter::note>("x").error().code, Errc::mailbox_full);
  pair.simulation.pass(1000ms);
  EXPECT_EQ(std::ranges::count_if(calls, [](const auto& c) { return c->result && c->result->has_value(); }), 3);
  EXPECT_TRUE(counter->tell<&Counter::note>("x")) << "there is room again";
  const auto info = pair.b.actors().at(0);
  EXPECT_EQ(info.name, "counter");
  EXPECT_EQ(info.type, "counter");
  EXPECT_EQ(info.mailbox_max, 3u);
  EXPECT_EQ(info.messages_handled, 3u);
  EXPECT_EQ(info.messages_refused, 3u);
}

TEST(Actor, AnAwaitingMethodLetsOthersRunUnlessTheActorIsSerial) {
  for (const bool serial : {false, true}) {
    Pair pair;
    auto counter = pair.a.spawn_with<CounterActor>({.name = "counter", .serial = serial});
    Started<int> slow(pair, counter->call<&Counter::add_slowly>(1, 1000));
    pair.simulation.settle();
    Started<int> quick(pair, counter->call<&Counter::add>(1));
    pair.simulation.settle();
    EXPECT_EQ(quick.result.has_value(), !serial);
    pair.simulation.pass(1000ms);
    ASSERT_TRUE(quick.result && slow.result);
    EXPECT_EQ(quick.result->value(), serial ? 2 : 1);
  }
}

TEST(Actor, ManyMoreMessagesThanTurnsPerDrain) {
  Pair pair;
  auto counter = pair.a.spawn<CounterActor>("counter");
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(counter->tell<&Counter::add>(1));
  EXPECT_EQ(pair.simulation.run(counter->call<&Counter::value>()).value(), 3000);
}

TEST(Actor, ADeadlineComesToTheMillisecond) {
  Pair pair;
  auto local = pair.b.spawn<CounterActor>("counter");
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  for (const ActorRef<Counter>& ref : {local->as<Counter>(), remote}) {
    Started<int> call(pair, ref.within(500ms).call<&Counter::add_slowly>(1, 60'000));
    Started<int> later(pair, ref.within(800ms).call<&Counter::add_slowly>(1, 60'000));
    pair.simulation.pass(499ms);
    EXPECT_FALSE(call.result);
    pair.simulation.pass(1ms);
    ASSERT_TRUE(call.result);
    EXPECT_EQ(call.result->error().code, Errc::deadline_exceeded);
    EXPECT_FALSE(later.result);
    pair.simulation.pass(300ms);
    EXPECT_TRUE(later.result);
  }
  Started<int> by_default(pair, remote.call<&Counter::add_slowly>(1, 60'000));
  pair.simulation.pass(29'999ms);
  EXPECT_FALSE(by_default.result);
  pair.simulation.pass(1ms);
  EXPECT_TRUE(by_default.result);
}

TEST(Actor, ReferencesTravelInMessages) {
  Pair pair;
  auto near = pair.a.spawn<CounterActor>("");
  auto far = pair.b.spawn<CounterActor>("far");
  const auto remote = pair.a.find<Counter>(pair.b.id(), "far");
  // b's actor gets a reference to an actor of a, and calls back over the same link.
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add_through>(near->as<Counter>(), 4)).value(), 4);
  EXPECT_EQ(pair.simulation.run(near->call<&Counter::value>()).value(), 4);
  // A reference that comes back as an answer works too; so does one that has been sent home.
  const auto self = pair.simulation.run(remote.call<&Counter::myself>());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->address(), far->address());
  EXPECT_EQ(pair.simulation.run(self->call<&Counter::add>(1)).value(), 1);
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add_through>(*self, 2)).value(), 3);
}

TEST(Actor, StoppingRefusesWhatWaitsAndCancelsWhatRuns) {
  std::vector<std::string> notes;
  Pair pair;
  auto counter = pair.b.spawn<CounterActor>("counter", &notes);
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  Started<int> running(pair, remote.call<&Counter::add_slowly>(1, 20'000));
  pair.simulation.settle();
  pair.b.stop_actor(counter->address().actor);
  pair.b.stop_actor(counter->address().actor);
  pair.simulation.settle();
  ASSERT_TRUE(running.result);
  EXPECT_EQ(notes, std::vector<std::string>{"stopped"});
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::value>()).error().code, Errc::not_found);
  EXPECT_TRUE(pair.b.spawn<CounterActor>("counter")) << "the name is free again";
}

TEST(Actor, TheSystemStopsItsActors) {
  std::vector<std::string> notes;
  Pair pair;
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter", &notes));
  Started<int> waiting(pair, pair.a.find<Counter>(pair.b.id(), "counter").call<&Counter::add_slowly>(1, 20'000));
  pair.simulation.settle();
  pair.simulation.run(pair.b.stop());
  pair.simulation.settle();
  EXPECT_EQ(notes, std::vector<std::string>{"stopped"});
  EXPECT_TRUE(waiting.result);
  EXPECT_TRUE(pair.b.actors().empty());
  EXPECT_EQ(pair.b.spawn<CounterActor>("late").error().code, Errc::cancelled);
}

}  // namespace
}  // namespace weir::runtime
