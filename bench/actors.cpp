#include "bench/actors.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <thread>
#include <vector>

#include "runtime/actor_system.hpp"
#include "runtime/event_loop.hpp"
#include "runtime/tcp_transport.hpp"

namespace weir::bench {
namespace {

using runtime::ActorRef;
using Microseconds = std::chrono::duration<double, std::micro>;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t message_bytes = 64;
constexpr int many = 4;  ///< the n of `1:n` and `n:n`
constexpr int turns = 10;
constexpr const char* secret = "bench";
using Payload = std::array<std::uint64_t, message_bytes / sizeof(std::uint64_t)>;

struct Echo {
  static constexpr std::string_view type_name = "echo";
  virtual ~Echo() = default;
  virtual net::awaitable<Result<Payload>> echo(Payload payload) = 0;
  static constexpr auto methods() { return runtime::methods<runtime::Method<&Echo::echo, "echo">>(); }
};

class EchoActor final : public runtime::Actor<Echo> {
 public:
  net::awaitable<Result<Payload>> echo(Payload payload) override { co_return payload; }
};

std::string actor_name(int index) { return "echo-" + std::to_string(index); }

/// The ports of the other process: for actors, and for the bare echo.
struct Ports {
  std::uint16_t actors = 0;
  std::uint16_t bare = 0;
};

void fail(const std::string& what) {
  std::cerr << "bench actors: " << what << "\n";
  std::exit(1);
}

// --- the bare socket -------------------------------------------------------------------------------------------------

int bare_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("no socket");
  return fd;
}

void no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool read_all(int fd, std::byte* data, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(fd, data, count, 0);
    if (got <= 0) return false;
    data += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

int bare_listener(std::uint16_t& port) {
  const int fd = bare_socket();
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, plain, length) != 0 || ::listen(fd, 1) != 0 || ::getsockname(fd, plain, &length) != 0) fail("bind");
  port = ntohs(address.sin_port);
  return fd;
}

void serve_bare_echo(int listener) {
  const int fd = ::accept(listener, nullptr, nullptr);
  no_delay(fd);
  std::array<std::byte, message_bytes> message{};
  while (read_all(fd, message.data(), message.size())) {
    if (::send(fd, message.data(), message.size(), MSG_NOSIGNAL) < 0) break;
  }
  ::close(fd);
}

/// Blocking ping-pong: the time that the kernel and the scheduler take, without this project's code.
class BareEcho {
 public:
  explicit BareEcho(std::uint16_t port) : fd_(bare_socket()) {
    const sockaddr_in address = loopback(port);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
    no_delay(fd_);
  }
  ~BareEcho() { ::close(fd_); }

  double round_trip() const {
    std::array<std::byte, message_bytes> message{};
    const auto begin = SteadyClock::now();
    (void)::send(fd_, message.data(), message.size(), MSG_NOSIGNAL);
    if (!read_all(fd_, message.data(), message.size())) fail("the bare echo ended");
    return Microseconds(SteadyClock::now() - begin).count();
  }

 private:
  int fd_;
};

// --- the other process -----------------------------------------------------------------------------------------------

[[noreturn]] void serve(int ports_pipe) {
  net::io_context io(1);
  runtime::SystemClock clock;
  auto transport = runtime::make_tcp_transport(io.get_executor());
  runtime::ActorSystem system({"callee", io.get_executor(), clock, *transport, secret});
  for (int i = 0; i < many; ++i) {
    if (!system.spawn<EchoActor>(actor_name(i))) fail("no actor");
  }
  const auto at = system.listen({"127.0.0.1", 0});
  if (!at) fail(at.error().message());
  Ports ports{at->port, 0};
  const int listener = bare_listener(ports.bare);
  std::jthread bare([listener] { serve_bare_echo(listener); });
  if (::write(ports_pipe, &ports, sizeof ports) != sizeof ports) fail("pipe");
  ::close(ports_pipe);
  runtime::run(io);
  std::exit(0);
}

/// The process with the echo actors. It dies with this process.
class Callee {
 public:
  Callee() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail("no pipe");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail("no process");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) std::exit(1);
      ::close(ends[0]);
      serve(ends[1]);
    }
    ::close(ends[1]);
    if (::read(ends[0], &ports_, sizeof ports_) != sizeof ports_) fail("the other process did not start");
    ::close(ends[0]);
  }
  ~Callee() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const Ports& ports() const { return ports_; }

 private:
  pid_t pid_ = 0;
  Ports ports_;
};

// --- the rows --------------------------------------------------------------------------------------------------------

struct Row {
  const char* name;
  int callers;
  int callees;
  int window;  ///< calls in flight at once, of all callers together
  int calls;
};

constexpr std::array rows{Row{"1:1 sync", 1, 1, 1, 20'000}, Row{"1:1 async", 1, 1, 1000, 1'000'000},
                          Row{"1:n async", 1, many, 1000, 1'000'000}, Row{"n:n async", many, many, 1000, 1'000'000}};

struct Measured {
  std::vector<double> microseconds;  ///< of single calls
  double seconds = 0;
};

/// One of the calls in flight: each call starts when the previous one has its answer.
net::awaitable<void> call_again(ActorRef<Echo> actor, int calls, Measured& measured) {
  Payload payload{};
  for (int i = 0; i < calls; ++i) {
    payload[0] = static_cast<std::uint64_t>(i);
    const auto begin = SteadyClock::now();
    const auto echoed = co_await actor.call<&Echo::echo>(payload);
    measured.microseconds.push_back(Microseconds(SteadyClock::now() - begin).count());
    if (!echoed) fail(echoed.error().message());
    if (*echoed != payload) fail("a wrong answer");
  }
}

net::awaitable<Result<runtime::PeerId>> connect(runtime::ActorSystem& system, std::uint16_t port) {
  runtime::Endpoint at("127.0.0.1", port);
  co_return co_await system.connect(std::move(at));
}

class Caller {
 public:
  explicit Caller(const Ports& ports)
      : transport_(runtime::make_tcp_transport(io_.get_executor())),
        system_({"caller", io_.get_executor(), clock_, *transport_, secret}) {
    net::co_spawn(io_, connect(system_, ports.actors), [this](std::exception_ptr, Result<runtime::PeerId> peer) {
      if (!peer) fail(peer.error().message());
      peer_ = *peer;
      io_.stop();
    });
    io_.run();
  }

  /// Adds its measurements to `measured`.
  void run(const Row& row, int calls, Measured& measured) {
    measured.microseconds.reserve(measured.microseconds.size() + static_cast<std::size_t>(calls));
    int running = row.window;
    const auto begin = SteadyClock::now();
    std::vector<net::any_io_executor> strands;
    for (int i = 0; i < row.callers; ++i) strands.push_back(net::make_strand(io_.get_executor()));
    for (int i = 0; i < row.window; ++i) {
      auto actor = system_.find<Echo>(*peer_, actor_name(i % row.callees));
      net::co_spawn(strands[static_cast<std::size_t>(i % row.callers)],
                    call_again(std::move(actor), calls / row.window, measured), [&](const std::exception_ptr& thrown) {
                      if (thrown) std::rethrow_exception(thrown);
                      if (--running == 0) io_.stop();
                    });
    }
    io_.restart();
    runtime::run(io_);
    measured.seconds += std::chrono::duration<double>(SteadyClock::now() - begin).count();
  }

 private:
  net::io_context io_{1};
  runtime::SystemClock clock_;
  std::unique_ptr<runtime::Transport> transport_;
  runtime::ActorSystem system_;
  std::optional<runtime::PeerId> peer_;
};

double percentile(std::vector<double>& values, double share) {
  const auto index = std::min(static_cast<std::size_t>(share * static_cast<double>(values.size())), values.size() - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

void print(const Options& options, const Row& row, Measured& measured, std::vector<double>& bare) {
  const double per_second = static_cast<double>(measured.microseconds.size()) / measured.seconds;
  const double p50 = percentile(measured.microseconds, 0.5);
  const double p99 = percentile(measured.microseconds, 0.99);
  const double rtt = percentile(bare, 0.5);
  if (options.json) {
    const nlohmann::json line{
        {"bench", "actors"},
        {"name", row.name},
        {"case",
         {{"callers", row.callers}, {"callees", row.callees}, {"window", row.window}, {"bytes", message_bytes}}},
        {"metrics", {{"calls_per_second", per_second}, {"p50_us", p50}, {"p99_us", p99}, {"tcp_rtt_p50_us", rtt}}}};
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << std::left << std::setw(12) << row.name << std::right << std::fixed << std::setprecision(0)
            << std::setw(12) << per_second << " calls/s" << std::setprecision(1) << std::setw(10) << p50 << " us p50"
            << std::setw(10) << p99 << " us p99" << std::setw(10) << rtt << " us bare TCP" << std::setprecision(2)
            << std::setw(8) << p50 / rtt << " x\n";
}

}  // namespace

int actors(const Options& options) {
  const std::regex filter(options.filter);
  const Callee callee;
  const BareEcho bare(callee.ports().bare);
  Caller caller(callee.ports());
  for (const Row& row : rows) {
    if (!std::regex_search(row.name, filter)) continue;
    Measured warm_up;
    caller.run(row, row.calls / 10, warm_up);
    // Calls and bare round trips are measured in turns, because a round trip depends on where the scheduler puts the
    // two processes, and that changes every second.
    Measured measured;
    std::vector<double> round_trips;
    for (int turn = 0; turn < turns; ++turn) {
      for (int i = 0; i < 10'000 / turns; ++i) round_trips.push_back(bare.round_trip());
      caller.run(row, row.calls / turns, measured);
    }
    print(options, row, measured, round_trips);
  }
  return 0;
}

}  // namespace weir::bench
