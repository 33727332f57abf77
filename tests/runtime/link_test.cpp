#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "runtime/event.hpp"
#include "runtime/handshake.hpp"
#include "runtime/task_group.hpp"
#include "tests/runtime/fixture.hpp"

namespace weir::runtime {
namespace {

TEST(Link, ALostPeerReleasesEveryCallerAtOnce) {
  Pair pair;
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter"));
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  std::vector<std::string> lost;
  pair.a.on_peer_lost(pair.simulation.executor(), [&](const PeerInfo& peer, const Error& why) {
    lost.push_back(peer.name);
    EXPECT_EQ(why.code, Errc::peer_lost);
  });
  std::vector<std::unique_ptr<Started<int>>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(std::make_unique<Started<int>>(pair, remote.call<&Counter::add_slowly>(1, 20'000)));
  }
  pair.simulation.settle();
  const auto before = pair.simulation.clock().now();
  pair.simulation.transport().cut();
  pair.simulation.settle();
  EXPECT_EQ(pair.simulation.clock().now(), before) << "no time has passed";
  for (const auto& call : calls) {
    ASSERT_TRUE(call->result);
    EXPECT_EQ(call->result->error().code, Errc::peer_lost);
  }
  EXPECT_EQ(lost, std::vector<std::string>{"b"});
  EXPECT_TRUE(pair.a.peers().empty());
  EXPECT_EQ(remote.tell<&Counter::add>(1).error().code, Errc::peer_lost);
}

TEST(Link, APeerThatComesBackIsReachedAgain) {
  Pair pair;
  auto at = pair.b.listen({"b", 0});
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter"));
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter");
  pair.simulation.transport().cut();
  pair.simulation.settle();
  ASSERT_TRUE(pair.simulation.run(pair.a.connect(*at)));
  EXPECT_EQ(pair.simulation.run(remote.call<&Counter::add>(1)).value(), 1);
}

TEST(Link, ASecondLinkOfOneProcessReplacesTheFirst) {
  Pair pair;
  std::vector<std::string> lost;
  pair.a.on_peer_lost(pair.simulation.executor(),
                      [&](const PeerInfo& peer, const Error&) { lost.push_back(peer.name); });
  auto at = pair.b.listen({"b", 0});
  ASSERT_TRUE(pair.simulation.run(pair.a.connect(*at)));
  pair.simulation.settle();
  EXPECT_EQ(lost, std::vector<std::string>{"b"});
  EXPECT_EQ(pair.a.peers().size(), 1u);
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter"));
  EXPECT_TRUE(pair.simulation.run(pair.a.find<Counter>(pair.b.id(), "counter").call<&Counter::add>(1)));
}

TEST(Link, ASilentPeerIsLost) {
  Pair pair;
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter"));
  pair.simulation.pass(60s);
  ASSERT_EQ(pair.a.peers().size(), 1u) << "an idle peer answers pings";
  Started<int> call(pair, pair.a.find<Counter>(pair.b.id(), "counter").call<&Counter::add_slowly>(1, 29'000));
  pair.simulation.settle();
  pair.simulation.transport().freeze();  // half-open: no frame arrives, no end is seen
  pair.simulation.pass(16s);
  ASSERT_TRUE(call.result);
  EXPECT_EQ(call.result->error().code, Errc::peer_lost);
  EXPECT_TRUE(pair.a.peers().empty());
  EXPECT_TRUE(pair.b.peers().empty());
}

TEST(Link, SilenceIsNoticedWithinTenSecondsOfTheLastSign) {
  Pair pair;
  pair.simulation.pass(3s);
  pair.simulation.transport().freeze();
  pair.simulation.pass(9s);
  EXPECT_EQ(pair.a.peers().size(), 1u);
  pair.simulation.pass(3s);
  EXPECT_TRUE(pair.a.peers().empty());
  EXPECT_TRUE(pair.b.peers().empty());
}

TEST(Link, ALargeMessageOnASlowLineIsNoSilence) {
  Pair pair;
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter"));
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter").within(600s);
  pair.simulation.transport().limit_rate(100'000);
  Started<Segment> call(pair, remote.call<&Counter::echo>(Segment::own(Bytes(6'000'000))));
  pair.simulation.pass(59s);
  EXPECT_FALSE(call.result) << "still on its way there";
  ASSERT_EQ(pair.a.peers().size(), 1u);
  pair.simulation.pass(62s);
  ASSERT_TRUE(call.result) << "there and back again";
  ASSERT_TRUE(*call.result) << call.result->error().message();
  EXPECT_EQ((*call.result)->size(), 6'000'000u);
}

TEST(Link, ALineThatDiesUnderALargeMessageIsNoticedAsSoonAsAnyOther) {
  Pair pair;
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter"));
  const auto remote = pair.a.find<Counter>(pair.b.id(), "counter").within(600s);
  pair.simulation.transport().limit_rate(100'000);
  Started<Segment> call(pair, remote.call<&Counter::echo>(Segment::own(Bytes(6'000'000))));
  pair.simulation.pass(30s);
  pair.simulation.transport().freeze();
  pair.simulation.pass(9s);
  EXPECT_FALSE(call.result);
  pair.simulation.pass(3s);
  ASSERT_TRUE(call.result);
  EXPECT_EQ(call.result->error().code, Errc::peer_lost);
  EXPECT_TRUE(pair.b.peers().empty());
}

/// Tells the counter something every 100 ms.
net::awaitable<void> chatter(testing::Simulation& simulation, ActorRef<Counter> counter) {
  while (counter.tell<&Counter::add>(1)) co_await simulation.clock().sleep_for(100ms);
}

TEST(Link, AStoppedProcessIsLostThoughItsMachineTakesWhatIsSent) {
  testing::Simulation simulation(1);
  const auto process = simulation.process();
  ActorSystem a({"a", simulation.executor(), simulation.clock(), simulation.transport(), "secret"});
  ActorSystem b({"b", process->executor(), simulation.clock(), process->transport(), "secret"});
  ASSERT_TRUE(b.spawn<CounterActor>("counter"));
  ASSERT_TRUE(simulation.run(a.connect(*b.listen({"b", 0}))));
  net::co_spawn(simulation.executor(), chatter(simulation, a.find<Counter>(b.id(), "counter")),
                [](const std::exception_ptr&) {});
  for (const auto stop : {3s, 8s}) {
    process->stop();
    simulation.pass(stop);
    process->resume();
    simulation.pass(5s);
    EXPECT_EQ(a.peers().size(), 1u) << stop.count();
    EXPECT_EQ(b.peers().size(), 1u) << stop.count();
  }
  process->stop();
  simulation.pass(12s);
  EXPECT_TRUE(a.peers().empty());
  process->resume();
  simulation.settle();
  EXPECT_TRUE(b.peers().empty());
}

TEST(Link, AProcessThatWasStoppedGivesNobodyUpForItsOwnSilence) {
  testing::Simulation simulation(1);
  const auto process = simulation.process();
  ActorSystem::Options patient{"a", simulation.executor(), simulation.clock(), simulation.transport(), "secret"};
  patient.silence_limit = 3600s;
  ActorSystem a(patient);
  ActorSystem b({"b", process->executor(), simulation.clock(), process->transport(), "secret"});
  ASSERT_TRUE(simulation.run(a.connect(*b.listen({"b", 0}))));
  process->stop();
  simulation.pass(600s);
  process->resume();
  simulation.pass(60s);
  EXPECT_EQ(b.peers().size(), 1u);
}

/// What connecting with this secret gives.
Result<PeerId> connect_with(const std::string& secret) {
  testing::Simulation simulation(3);
  ActorSystem a({"a", simulation.executor(), simulation.clock(), simulation.transport(), secret});
  ActorSystem b({"b", simulation.executor(), simulation.clock(), simulation.transport(), "secret"});
  auto at = b.listen({"b", 0});
  auto peer = simulation.run(a.connect(*at));
  EXPECT_EQ(b.peers().size(), peer ? 1u : 0u);
  EXPECT_EQ(a.peers().size(), peer ? 1u : 0u);
  return peer;
}

TEST(Link, OnlyThoseWhoKnowTheSecretGetIn) {
  EXPECT_TRUE(connect_with("secret"));
  for (const std::string wrong : {"", "secres", "secret2"}) {
    const auto peer = connect_with(wrong);
    ASSERT_FALSE(peer);
    EXPECT_EQ(peer.error().code, Errc::unauthenticated) << peer.error().message();
  }
}

/// Says whom it hears.
struct Porter {
  static constexpr std::string_view type_name = "porter";
  virtual ~Porter() = default;
  virtual Result<std::string> who() = 0;
  static constexpr auto methods() { return runtime::methods<Method<&Porter::who, "who">>(); }
};
class PorterActor final : public Actor<Porter> {
 public:
  Result<std::string> who() override {
    if (caller() == nullptr) return std::string("myself");
    return caller()->account + " " + std::to_string(caller()->process);
  }
};

/// A listening system, and others that come with accounts of their own.
struct Accounts {
  ActorSystem& come(const std::string& account, const std::string& secret) {
    systems.push_back(std::make_unique<ActorSystem>(ActorSystem::Options{.name = account,
                                                                         .executor = simulation.executor(),
                                                                         .clock = simulation.clock(),
                                                                         .transport = simulation.transport(),
                                                                         .secret = secret,
                                                                         .account = account}));
    return *systems.back();
  }

  testing::Simulation simulation{3};
  std::vector<std::unique_ptr<ActorSystem>> systems;
  ActorSystem& b = come("own", "own secret");
  Endpoint at = b.listen({"b", 0}).value();
};

TEST(Link, EachAccountHasItsSecretAndActorsHearWhichOneSpeaks) {
  Accounts net;
  ASSERT_TRUE(net.b.spawn<PorterActor>("porter"));
  net.b.allow("job", "secret of the job");
  for (const char* account : {"own", "job"}) {
    ActorSystem& a = net.come(account, account == std::string("own") ? "own secret" : "secret of the job");
    const auto peer = net.simulation.run(a.connect(net.at));
    ASSERT_TRUE(peer) << peer.error().message();
    EXPECT_EQ(net.simulation.run(a.find<Porter>(*peer, "porter").call<&Porter::who>()).value(),
              account + (" " + std::to_string(a.id().value)));
  }
  EXPECT_EQ(net.simulation.run(net.b.find<Porter>(net.b.id(), "porter").call<&Porter::who>()).value(), "myself");
  EXPECT_EQ(net.simulation.run(net.come("own", "secret of the job").connect(net.at)).error().code,
            Errc::unauthenticated);
  EXPECT_EQ(net.simulation.run(net.come("job", "own secret").connect(net.at)).error().code, Errc::unauthenticated);
  EXPECT_EQ(net.simulation.run(net.come("unknown", "").connect(net.at)).error().code, Errc::unauthenticated);
}

TEST(Link, AForbiddenAccountIsOutAtOnce) {
  Accounts net;
  net.b.allow("job", "secret of the job");
  ActorSystem& a = net.come("job", "secret of the job");
  ASSERT_TRUE(net.simulation.run(a.connect(net.at)));
  net.b.forbid("job", "the job is over");
  net.simulation.settle();
  EXPECT_TRUE(a.peers().empty());
  EXPECT_TRUE(net.b.peers().empty());
  EXPECT_EQ(net.simulation.run(a.connect(net.at)).error().code, Errc::unauthenticated);
}

TEST(Link, WhatAForbiddenAccountHasSentBeforeItIsOutHasNoEffect) {
  Accounts net;
  std::vector<std::string> notes;
  ASSERT_TRUE(net.b.spawn<CounterActor>("counter", &notes));
  net.b.allow("job", "secret of the job");
  ActorSystem& a = net.come("job", "secret of the job");
  const auto peer = net.simulation.run(a.connect(net.at));
  ASSERT_TRUE(peer);
  const auto counter = a.find<Counter>(*peer, "counter");
  ASSERT_TRUE(counter.tell<&Counter::note>("before"));
  net.simulation.settle();
  ASSERT_TRUE(counter.tell<&Counter::note>("too late"));
  net.b.forbid("job", "the job is over");
  net.simulation.settle();
  EXPECT_EQ(notes, std::vector<std::string>{"before"});
}

TEST(Link, NobodyListening) {
  testing::Simulation simulation(1);
  ActorSystem a({"a", simulation.executor(), simulation.clock(), simulation.transport(), "s"});
  const auto peer = simulation.run(a.connect(Endpoint("nowhere", 1)));
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::io);
}

/// Keeps what a bare link receives.
struct Recorder final : LinkHandler {
  std::vector<std::pair<FrameKind, Bytes>> frames;
  std::optional<Error> closed;
  void on_frame(const FrameView& frame) override {
    frames.emplace_back(frame.kind, Bytes(frame.body.begin(), frame.body.end()));
  }
  void on_closed(const Error& reason) override { closed = reason; }
};

net::awaitable<Result<std::shared_ptr<Link>>> bare_connect(Transport& transport, Endpoint to) {
  co_return co_await transport.connect(std::move(to));
}

TEST(Link, AStrangerThatSaysNothingIsTurnedAway) {
  Pair pair;
  auto at = pair.b.listen({"b", 0});
  auto link = pair.simulation.run(bare_connect(pair.simulation.transport(), *at)).value();
  auto recorder = std::make_shared<Recorder>();
  link->start(recorder);
  pair.simulation.pass(4999ms);
  EXPECT_FALSE(recorder->closed);
  pair.simulation.pass(1ms);
  EXPECT_TRUE(recorder->closed);
  EXPECT_TRUE(recorder->frames.empty());
  EXPECT_EQ(pair.b.peers().size(), 1u) << "the good peer stays";
}

TEST(Link, SilentStrangersDisplaceEachOther) {
  testing::Simulation simulation(3);
  ActorSystem a({"a", simulation.executor(), simulation.clock(), simulation.transport(), "secret"});
  ActorSystem b(ActorSystem::Options{.name = "b",
                                     .executor = simulation.executor(),
                                     .clock = simulation.clock(),
                                     .transport = simulation.transport(),
                                     .secret = "secret",
                                     .unauthenticated_links_max = 4});
  auto at = b.listen({"b", 0});
  std::vector<std::shared_ptr<Recorder>> strangers;
  for (int i = 0; i < 10; ++i) {
    auto link = simulation.run(bare_connect(simulation.transport(), *at)).value();
    strangers.push_back(std::make_shared<Recorder>());
    link->start(strangers.back());
    simulation.settle();
  }
  EXPECT_TRUE(simulation.run(a.connect(*at)));
  simulation.settle();
  for (std::size_t i = 0; i < strangers.size(); ++i) EXPECT_EQ(strangers[i]->closed.has_value(), i < 7) << i;
  EXPECT_EQ(b.peers().size(), 1u);
}

/// A frame that tells the actor "counter" to note this.
Bytes note_frame(const std::string& text) {
  Bytes body;
  std::vector<Segment> none;
  Writer out(body, none);
  out.number(ActorSystem::named_actor("counter"));
  out.number(method_id<&Counter::note>());
  write_value(out, text);
  return body;
}

TEST(Link, ANumberOfAnotherProcessOpensNothing) {
  Accounts net;
  net.b.allow("job", "secret of the job");
  std::vector<std::string> notes;
  ASSERT_TRUE(net.b.spawn<CounterActor>("counter", &notes));
  ActorSystem& a = net.come("own", "own secret");
  ASSERT_TRUE(net.simulation.run(a.connect(net.at)));
  // Whoever knows a job's secret claims to be the process of `a`, to get what is meant for it.
  auto link = net.simulation.run(bare_connect(net.simulation.transport(), net.at)).value();
  auto recorder = std::make_shared<Recorder>();
  link->start(recorder);
  const Handshake::Secrets known = [](std::string_view) { return std::string("secret of the job"); };
  Handshake thief(Handshake::Role::connect, known, {a.id().value, "thief", "job"});
  auto next = thief.open();
  for (std::size_t seen = 0; next; ++seen) {
    ASSERT_TRUE(link->send(next->kind, next->body, {}));
    if (next->kind == FrameKind::proof) {  // both have arrived when the first of them is looked at
      ASSERT_TRUE(link->send(FrameKind::tell, note_frame("hello"), {}));
    }
    net.simulation.settle();
    ASSERT_GT(recorder->frames.size(), seen);
    auto answer = thief.receive({recorder->frames[seen].first, recorder->frames[seen].second, {}});
    ASSERT_TRUE(answer) << answer.error().message();
    next = std::move(*answer);
  }
  ASSERT_TRUE(thief.done());
  net.simulation.settle();
  EXPECT_TRUE(recorder->closed);
  EXPECT_TRUE(notes.empty()) << "a refused peer is heard";
  ASSERT_EQ(net.b.peers().size(), 1u);
  EXPECT_EQ(net.b.peers()[0].name, "own");
}

TEST(Link, CallsBeforeTheHandshakeReachNobody) {
  Pair pair;
  std::vector<std::string> notes;
  ASSERT_TRUE(pair.b.spawn<CounterActor>("counter", &notes));
  auto at = pair.b.listen({"b", 0});
  auto link = pair.simulation.run(bare_connect(pair.simulation.transport(), *at)).value();
  auto recorder = std::make_shared<Recorder>();
  link->start(recorder);
  ASSERT_TRUE(link->send(FrameKind::tell, note_frame("hello"), {}));
  pair.simulation.settle();
  EXPECT_TRUE(recorder->closed);
  EXPECT_TRUE(notes.empty());
}

/// Links that are opened here come when the test allows it.
class LateTransport final : public Transport {
 public:
  explicit LateTransport(Transport& below) : below_(below) {}
  Result<std::unique_ptr<Listener>> listen(net::any_io_executor executor, const Endpoint& at, Accept accept) override {
    return below_.listen(std::move(executor), at, std::move(accept));
  }
  net::awaitable<Result<std::shared_ptr<Link>>> connect(Endpoint to) override {
    auto link = co_await below_.connect(std::move(to));
    co_await allowed.wait();
    co_return link;
  }
  const Event allowed;

 private:
  Transport& below_;
};

TEST(Link, OneThatComesAfterTheEndOfItsSystemIsDropped) {
  testing::Simulation simulation{1};
  LateTransport late(simulation.transport());
  ActorSystem a({"a", simulation.executor(), simulation.clock(), late, "secret"});
  ActorSystem b({"b", simulation.executor(), simulation.clock(), simulation.transport(), "secret"});
  const auto at = b.listen({"b", 0}).value();
  Started<PeerId> connected(simulation, a.connect(at));
  simulation.pass(1s);
  simulation.run(a.stop());
  EXPECT_FALSE(connected.result);
  late.allowed.set();
  simulation.pass(1s);
  ASSERT_TRUE(connected.result);
  ASSERT_FALSE(*connected.result) << "the system has stopped";
  EXPECT_EQ(connected.result->error().code, Errc::cancelled);
  EXPECT_TRUE(b.peers().empty());
}

TEST(Link, AnOpenLinkEndsWithItsSimulation) {
  auto recorder = std::make_shared<Recorder>();
  {
    Pair pair;
    auto link = pair.simulation.run(bare_connect(pair.simulation.transport(), *pair.b.listen({"b", 0}))).value();
    link->start(recorder);
    EXPECT_EQ(recorder.use_count(), 2);
  }
  EXPECT_EQ(recorder.use_count(), 1) << "the link still holds its handler";
}

/// Exchanges all frames between two ends; the first error ends it.
Result<void> shake(Handshake& a, Handshake& b) {
  auto next = a.open();
  Handshake* receiver = &b;
  Handshake* sender = &a;
  while (next) {
    auto answer = receiver->receive({next->kind, next->body, {}});
    if (!answer) return answer.error();
    next = std::move(*answer);
    std::swap(receiver, sender);
  }
  return {};
}

/// Knows one secret, whatever the account.
Handshake::Secrets secret(std::string text) {
  return [text = std::move(text)](std::string_view) { return text; };
}

TEST(HandshakeFrames, BothEndsLearnWhoTheOtherIs) {
  Handshake a(Handshake::Role::connect, secret("s"), {1, "a"});
  Handshake b(Handshake::Role::listen, secret("s"), {2, "b"});
  ASSERT_TRUE(shake(a, b));
  EXPECT_TRUE(a.done() && b.done());
  EXPECT_EQ(a.peer().name, "b");
  EXPECT_EQ(b.peer().process, 1u);
}

TEST(HandshakeFrames, ANameCannotForgeALineOfALog) {
  const std::string name = "a\n[info] head: linked with node\x1b[2J\xff";
  const std::string account = "job\n7";
  Handshake a(Handshake::Role::connect, secret("s"), {1, name, account});
  Handshake b(Handshake::Role::listen, secret("s"), {2, name});
  ASSERT_TRUE(shake(a, b)) << "the account is proved as it was sent";
  EXPECT_EQ(a.peer().name, R"(a\x0a[info] head: linked with node\x1b[2J\xff)");
  EXPECT_EQ(b.peer().name, a.peer().name);
  EXPECT_EQ(b.account(), account);
}

TEST(HandshakeFrames, TheAccountDecidesWhichSecretCounts) {
  const Handshake::Secrets secrets = [](std::string_view account) -> std::optional<std::string> {
    if (account == "one") return "secret of one";
    if (account == "two") return "secret of two";
    return std::nullopt;
  };
  const auto outcome = [&](const std::string& account, const std::string& known) {
    Handshake a(Handshake::Role::connect, secret(known), {1, "a", account});
    Handshake b(Handshake::Role::listen, secrets, {2, "b"});
    const auto shaken = shake(a, b);
    EXPECT_EQ(b.done(), shaken.has_value());
    if (shaken) {
      EXPECT_EQ(b.account(), account);
    }
    return shaken ? Errc{} : static_cast<Errc>(shaken.error().code.value());
  };
  EXPECT_EQ(outcome("one", "secret of one"), Errc{});
  EXPECT_EQ(outcome("two", "secret of two"), Errc{});
  EXPECT_EQ(outcome("one", "secret of two"), Errc::unauthenticated);
  EXPECT_EQ(outcome("three", "secret of one"), Errc::unauthenticated);
  EXPECT_EQ(outcome("three", ""), Errc::unauthenticated) << "no account is no empty secret";
  EXPECT_EQ(outcome("", "secret of one"), Errc::unauthenticated);
}

TEST(HandshakeFrames, AnEchoIsNoProof) {
  // An attacker who knows nothing sends the connecting end's own words back.
  Handshake a(Handshake::Role::connect, secret("s"), {1, "a"});
  Handshake mirror(Handshake::Role::listen, secret("other"), {2, "m"});
  auto hello = mirror.receive({a.open()->kind, a.open()->body, {}});
  auto proof = a.receive({(*hello)->kind, (*hello)->body, {}});
  ASSERT_TRUE(proof && *proof);
  EXPECT_EQ(a.receive({(*proof)->kind, (*proof)->body, {}}).error().code, Errc::unauthenticated);
}

TEST(HandshakeFrames, AnotherVersionIsUnsupported) {
  Handshake a(Handshake::Role::connect, secret("s"), {1, "a"});
  Handshake b(Handshake::Role::listen, secret("s"), {2, "b"});
  auto hello = *a.open();
  hello.body[0] = std::byte{99};
  hello.body.resize(10);  // another version may look different behind its number
  EXPECT_EQ(b.receive({hello.kind, hello.body, {}}).error().code, Errc::unsupported);
}

TEST(HandshakeFrames, WrongOrderAndGarbageAreMalformed) {
  Handshake b(Handshake::Role::listen, secret("s"), {2, "b"});
  EXPECT_EQ(b.receive({FrameKind::proof, {}, {}}).error().code, Errc::malformed);
  EXPECT_EQ(b.receive({FrameKind::hello, {}, {}}).error().code, Errc::malformed);
  Handshake self(Handshake::Role::connect, secret("s"), {2, "b"});
  EXPECT_EQ(b.receive({FrameKind::hello, self.open()->body, {}}).error().code, Errc::conflict) << "linked with itself";
}

TEST(HandshakeFrames, WhatAStrangerSaysIsCleanedBeforeALogHasIt) {
  const auto refusal = Handshake::refuse({Errc::conflict, "\x1b]0;title\a\xc2\x9b" + std::string(4000, 'x') + "\n"});
  Handshake a(Handshake::Role::connect, secret("s"), {1, "a"});
  Handshake b(Handshake::Role::listen, secret("s"), {2, "b"});
  const Error first = b.receive({refusal.kind, refusal.body, {}}).error();
  EXPECT_EQ(first, (Error{Errc::malformed, "a frame that does not belong into a handshake"}))
      << "nobody has called yet";
  ASSERT_TRUE(b.receive({a.open()->kind, a.open()->body, {}}));
  for (Handshake* end : {&a, &b}) {
    const Error why = end->receive({refusal.kind, refusal.body, {}}).error();
    EXPECT_EQ(why.code, Errc::conflict);
    EXPECT_TRUE(why.context.starts_with(R"(refused by the peer: \x1b]0;title\x07\x9bxxx)")) << why.context;
    EXPECT_LE(why.context.size(), 340u);
    EXPECT_TRUE(std::ranges::all_of(why.context, [](char c) { return c >= ' ' && c <= '~'; })) << why.context;
  }
}

}  // namespace
}  // namespace weir::runtime
