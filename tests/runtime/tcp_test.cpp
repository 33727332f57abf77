#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <optional>

#include "runtime/task_group.hpp"
#include "runtime/tcp_transport.hpp"
#include "tests/runtime/fixture.hpp"
#include "tests/runtime/run_real.hpp"

namespace weir::runtime {
namespace {

using Tcp = net::ip::tcp;

const Endpoint any_port("127.0.0.1", 0);

/// An actor system over real sockets.
struct Real {
  explicit Real(net::io_context& io, std::string name, TcpOptions tcp = {})
      : transport(make_tcp_transport(io.get_executor(), tcp)),
        system({std::move(name), io.get_executor(), clock, *transport, "secret"}) {}
  SystemClock clock;
  std::unique_ptr<Transport> transport;
  ActorSystem system;
};

class TcpLinks : public ::testing::Test {
 protected:
  TcpLinks() : a_(io_, "a"), b_(io_, "b") {
    at_ = b_.system.listen(any_port).value();
    EXPECT_TRUE(run_real(io_, a_.system.connect(at_)));
    EXPECT_TRUE(b_.system.spawn<CounterActor>("counter"));
    counter_ = a_.system.find<Counter>(b_.system.id(), "counter");
  }

  /// Sends bytes as a stranger, and waits until the other side closes.
  static net::awaitable<Result<std::size_t>> send_raw(Endpoint to, Bytes bytes) {
    Tcp::socket socket(co_await net::this_coro::executor);
    const Tcp::endpoint address(net::ip::make_address(to.host), to.port);
    const auto [refused] = co_await socket.async_connect(address, nothrow);
    if (refused) co_return Error{Errc::io, refused.message()};
    (void)co_await net::async_write(socket, net::buffer(bytes), nothrow);
    std::size_t received = 0;
    while (true) {
      std::array<std::byte, 1000> answer{};
      const auto [ended, count] = co_await socket.async_read_some(net::buffer(answer), nothrow);
      if (ended) co_return received;
      received += count;
    }
  }

  net::io_context io_;
  Real a_;
  Real b_;
  Endpoint at_;
  ActorRef<Counter> counter_;
};

/// Does nothing with what it receives.
struct Ignore final : LinkHandler {
  void on_frame(const FrameView&) override {}
  void on_closed(const Error&) override {}
};

/// A link over TCP that nobody has started.
struct OpenLink {
  void poll() {
    io.restart();
    io.poll();
  }

  net::io_context io;
  std::unique_ptr<Transport> transport = make_tcp_transport(io.get_executor(), {});
  std::shared_ptr<Link> other_end;
  std::unique_ptr<Listener> listener =
      transport->listen(io.get_executor(), any_port, [this](auto accepted) { other_end = std::move(accepted); })
          .value();
  std::shared_ptr<Link> link = run_real(io, transport->connect(listener->endpoint())).value();
};

TEST(TcpLink, EndsWithItsEventLoop) {
  auto handler = std::make_shared<Ignore>();
  {
    OpenLink open;
    open.link->start(handler);
    open.poll();
    EXPECT_EQ(handler.use_count(), 2) << "the link is open and waits";
  }
  EXPECT_EQ(handler.use_count(), 1) << "the link still holds its handler";
}

/// Counts the ends of its link.
struct CountEnds final : LinkHandler {
  void on_frame(const FrameView&) override {}
  void on_closed(const Error& reason) override {
    ++ends;
    why = reason.code;
  }
  int ends = 0;
  boost::system::error_code why;
};

TEST(TcpLink, AHandlerThatComesAfterTheEndHearsOfIt) {
  OpenLink open;
  open.link->close({Errc::cancelled, "the system stops"});
  open.poll();
  const auto handler = std::make_shared<CountEnds>();
  open.link->start(handler);
  open.poll();
  EXPECT_EQ(handler->ends, 1);
  EXPECT_EQ(handler->why, Errc::cancelled);
  EXPECT_EQ(handler.use_count(), 1) << "the link still holds its handler";
}

TEST_F(TcpLinks, ACallCrosses) { EXPECT_EQ(run_real(io_, counter_.call<&Counter::add>(5)).value(), 5); }

TEST_F(TcpLinks, A64MiBSegmentCrossesAndComesBack) {
  Bytes bytes(64u << 20);
  for (std::size_t i = 0; i < bytes.size(); i += 4096) bytes[i] = static_cast<std::byte>(i >> 12);
  const Segment segment = Segment::own(std::move(bytes));
  const auto back = run_real(io_, counter_.call<&Counter::echo>(segment));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(std::ranges::equal(back->bytes(), segment.bytes()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(back->bytes().data()) % 64, 0u) << "a tensor can be made of it in place";
}

TEST_F(TcpLinks, HostileBytesCloseTheirLinkAndNothingElse) {
  Bytes garbage(5000, std::byte{0x41});
  FrameBuffer hello;
  ASSERT_TRUE(hello.add(FrameKind::hello, Bytes(4000, std::byte{0xff}), {}));
  std::array<BytesView, 2> spans;
  hello.spans(spans);
  Bytes other_version(spans[0].begin(), spans[0].end());
  other_version[4] = std::byte{77};
  Bytes corrupt(spans[0].begin(), spans[0].end());
  corrupt.back() ^= std::byte{1};
  FrameBuffer large;
  ASSERT_TRUE(large.add(FrameKind::hello, Bytes(5000), {}));  // more than a stranger may send
  large.spans(spans);
  const Bytes oversized(spans[0].begin(), spans[0].begin() + frame_header_bytes);
  for (const Bytes& bytes : {garbage, Bytes(corrupt), other_version, oversized}) {
    EXPECT_TRUE(run_real(io_, send_raw(at_, bytes)));
  }
  EXPECT_EQ(b_.system.peers().size(), 1u);
  EXPECT_EQ(run_real(io_, counter_.call<&Counter::add>(1)).value(), 1);
}

TEST_F(TcpLinks, AMessageThatIsTooLargeHarmsNothingElse) {
  const std::string text(17u << 20, 'x');  // more than a body may hold
  EXPECT_EQ(counter_.tell<&Counter::note>(text).error().code, Errc::invalid_argument);
  EXPECT_EQ(run_real(io_, counter_.call<&Counter::note>(text)).error().code, Errc::invalid_argument);
  EXPECT_EQ(run_real(io_, counter_.call<&Counter::long_text>(17u << 20)).error().code, Errc::invalid_argument);
  EXPECT_EQ(run_real(io_, counter_.call<&Counter::add>(1)).value(), 1) << "the link stands";
}

TEST_F(TcpLinks, AQueueThatNobodyReadsIsBounded) {
  // A listener that never reads: what is sent to it piles up here, up to the limit.
  Tcp::acceptor deaf(io_, Tcp::endpoint(net::ip::make_address("127.0.0.1"), 0));
  auto transport = make_tcp_transport(io_.get_executor(), {.limits = {}, .queued_bytes_max = 1 << 20});
  auto link = run_real(io_, transport->connect(Endpoint("127.0.0.1", deaf.local_endpoint().port())));
  ASSERT_TRUE(link);
  const Segment segment = Segment::own(Bytes(256 << 10));
  Result<void> sent;
  int accepted = 0;
  while (sent && accepted < 1000) {
    sent = (*link)->send(FrameKind::tell, {}, std::array{segment});
    ++accepted;
    io_.poll();
    io_.restart();
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::exhausted);
  (*link)->close({Errc::cancelled, "test"});
}

TEST_F(TcpLinks, NobodyListensThere) {
  // Bound but not listening: the port is nobody else's, and connections to it are refused.
  const Tcp::socket silent(io_, Tcp::endpoint(net::ip::address_v4::loopback(), 0));
  const auto peer = run_real(io_, a_.system.connect(Endpoint("127.0.0.1", silent.local_endpoint().port())));
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::io);
  EXPECT_FALSE(b_.system.listen(at_)) << "the port is taken";
}

/// A port at which nobody answers: the kernel drops the calls that come while others wait to be accepted.
struct SilentPort {
  explicit SilentPort(net::io_context& io) : acceptor(io) {
    acceptor.open(Tcp::v4());
    acceptor.bind(Tcp::endpoint(net::ip::address_v4::loopback(), 0));
    acceptor.listen(0);
    for (int i = 0; i < 4; ++i) {
      Tcp::socket& caller = callers.emplace_back(io);
      caller.open(Tcp::v4());
      caller.non_blocking(true);
      const auto at = acceptor.local_endpoint();
      (void)::connect(caller.native_handle(), at.data(), static_cast<socklen_t>(at.size()));  // Asio's would wait
    }
  }
  Endpoint endpoint() const { return {"127.0.0.1", acceptor.local_endpoint().port()}; }

  Tcp::acceptor acceptor;
  std::deque<Tcp::socket> callers;
};

TEST(TcpTransport, AHostThatDoesNotAnswerIsWaitedForInVainForALimitedTime) {
  net::io_context io;
  const SilentPort silent(io);
  Real real(io, "a", {.limits = {}, .connect_limit = 50ms});
  const auto peer = run_real(io, real.system.connect(silent.endpoint()));
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::deadline_exceeded);
  EXPECT_NE(peer.error().context.find("has not answered within 50 ms"), std::string::npos) << peer.error().context;
}

/// Connects to the endpoint in a task that can be cancelled.
net::awaitable<void> connect_into(Transport& transport, Endpoint to, std::optional<Error>& failure) {
  const auto link = co_await transport.connect(std::move(to));
  if (!link) failure = link.error();
}

net::awaitable<Result<void>> stop_group(TaskGroup& tasks, Clock& clock) {
  co_await tasks.stop(clock, 60s);
  co_return Result<void>();
}

TEST(TcpTransport, AConnectUnderWayCanBeCancelled) {
  net::io_context io;
  const SilentPort silent(io);
  Real real(io, "a", {.limits = {}, .connect_limit = std::chrono::hours(1)});
  TaskGroup tasks(io.get_executor(), "test");
  std::optional<Error> failure;
  tasks.spawn("connect", connect_into(*real.transport, silent.endpoint(), failure));
  io.run_for(100ms);
  EXPECT_FALSE(failure);
  ASSERT_TRUE(run_real(io, stop_group(tasks, real.clock)));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Errc::cancelled);
}

/// The other process: serves a counter until it is killed, or its parent ends.
[[noreturn]] void serve(int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  net::io_context io;
  Real real(io, "child");
  (void)real.system.spawn<CounterActor>("counter");
  const auto at = real.system.listen(any_port);
  if (!at || ::write(ready, &at->port, sizeof at->port) != sizeof at->port) ::_exit(1);
  io.run();
  ::_exit(0);
}

TEST(TwoProcesses, CallEachOtherAndNoticeDeathAtOnce) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) serve(ready[1]);
  ::close(ready[1]);
  std::uint16_t port = 0;
  ASSERT_EQ(::read(ready[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  ::close(ready[0]);

  net::io_context io;
  Real real(io, "parent");
  const auto peer = run_real(io, real.system.connect(Endpoint("127.0.0.1", port)));
  ASSERT_TRUE(peer) << peer.error().message();
  const auto counter = real.system.find<Counter>(*peer, "counter");
  EXPECT_EQ(run_real(io, counter.call<&Counter::add>(5)).value(), 5);
  // The child's actor calls an actor of this process through a reference in the message.
  auto own = real.system.spawn<CounterActor>("own");
  EXPECT_EQ(run_real(io, counter.call<&Counter::add_through>(own->as<Counter>(), 3)).value(), 3);

  std::optional<Error> lost;
  real.system.on_peer_lost(io.get_executor(), [&](const PeerInfo&, const Error& why) { lost = why; });
  net::post(io, [child] { ::kill(child, SIGKILL); });
  const auto waiting = run_real(io, counter.within(60s).call<&Counter::add_slowly>(1, 50'000));
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code, Errc::peer_lost);
  io.restart();
  io.poll();
  EXPECT_TRUE(lost);
  ::waitpid(child, nullptr, 0);
}

TEST(Endpoints, AreParsed) {
  EXPECT_EQ(Endpoint::parse("127.0.0.1:80").value(), Endpoint("127.0.0.1", 80));
  EXPECT_EQ(Endpoint::parse("[::1]:0").value(), Endpoint("::1", 0));
  EXPECT_EQ(Endpoint::parse("[::1]:0")->text(), "[::1]:0");
  for (const char* bad : {"", "host", ":80", "host:", "host:x", "host:70000", "::1:80", "[]:1"}) {
    EXPECT_FALSE(Endpoint::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace weir::runtime
