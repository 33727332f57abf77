#include "worker/run.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "protocol/accounts.hpp"
#include "protocol/head_link.hpp"
#include "protocol/worker_environment.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/clock.hpp"
#include "runtime/event_loop.hpp"
#include "runtime/process.hpp"
#include "runtime/task_group.hpp"
#include "runtime/tcp_transport.hpp"
#include "worker/threads.hpp"

namespace weir::worker {
namespace {

namespace environment = protocol::worker_environment;

constexpr int exit_done = 0;
constexpr int exit_lost = 1;
constexpr int exit_usage = 2;

/// Exits at once, without waiting for a computation that may take long: a worker holds no state that must be saved,
/// since everything that has to last is with the head.
[[noreturn]] void leave(int code, const std::string& why) {
  spdlog::info("leaving: {}", why);
  spdlog::default_logger()->flush();
  std::_Exit(code);
}

std::string variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Setting {
  std::string worker_id;
  std::string job_id;
  runtime::Endpoint head;
  std::string secret;
  int threads = 1;
  std::chrono::milliseconds lease{10'000};
  std::optional<int> lifeline;
};

/// Reads the first line and nothing after it. Empty if there is none.
std::string read_line(int descriptor) {
  constexpr std::size_t bytes_max = 4096;
  std::string line;
  for (char c = 0; line.size() < bytes_max && ::read(descriptor, &c, 1) == 1 && c != '\n';) line.push_back(c);
  return line;
}

Result<Setting> read_setting() {
  Setting setting;
  setting.worker_id = variable(environment::worker_id);
  setting.job_id = variable(environment::job_id);
  const auto head = variable(environment::head);
  const bool told = !setting.worker_id.empty() && !setting.job_id.empty() && !head.empty();
  if (told) setting.secret = read_line(STDIN_FILENO);
  if (!told || setting.secret.empty()) {
    return Error{
        Errc::invalid_argument,
        "weir-worker run is started by a node agent: it needs WEIR_WORKER_ID, WEIR_JOB_ID and WEIR_HEAD in its "
        "environment, and the job's secret on standard input"};
  }
  auto at = runtime::Endpoint::parse(head);
  if (!at) return at.error().within("WEIR_HEAD");
  setting.head = std::move(*at);
  if (const auto text = variable(environment::threads); !text.empty()) {
    const auto threads = number<int>(text);
    if (!threads || *threads < 1) return Error{Errc::invalid_argument, "WEIR_THREADS is not a whole number above 0"};
    setting.threads = *threads;
  }
  if (const auto text = variable(environment::lease); !text.empty()) {
    const auto lease = number<std::uint32_t>(text);
    if (!lease) return Error{Errc::invalid_argument, "WEIR_LEASE_MILLISECONDS is not a whole number"};
    setting.lease = std::chrono::milliseconds(*lease);
  }
  setting.lifeline = number<int>(variable(runtime::lifeline_variable));
  return setting;
}

/// Ends the process when the agent is gone: its end of the pipe closes, however it died.
net::awaitable<void> watch_lifeline(int descriptor) {
  net::posix::stream_descriptor pipe(co_await net::this_coro::executor, descriptor);
  char byte = 0;
  for (;;) {
    const auto [error, count] = co_await pipe.async_read_some(net::buffer(&byte, 1), runtime::nothrow);
    if (error == net::error::operation_aborted) co_return;
    if (error) leave(exit_lost, "the node agent is gone");
  }
}

net::awaitable<void> watch_signals() {
  net::signal_set signals(co_await net::this_coro::executor, SIGTERM, SIGINT);
  const auto [error, number] = co_await signals.async_wait(runtime::nothrow);
  if (!error) leave(exit_done, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/// Holds the link to the head until the head does not want this worker any more or cannot be reached, then exits.
net::awaitable<void> serve(runtime::ActorSystem& system, const Setting& setting, const ActorTypes& types) {
  std::function<Result<runtime::ActorRef<protocol::Worker>>(runtime::ActorRef<protocol::Coordinator>)> make_worker =
      [&system,
       &types](runtime::ActorRef<protocol::Coordinator> coordinator) -> Result<runtime::ActorRef<protocol::Worker>> {
    const auto worker = system.spawn<WorkerActor>("worker", types, std::move(coordinator));
    if (!worker) return worker.error();
    return worker->as<protocol::Worker>();
  };
  protocol::HeadLinkOptions options{setting.worker_id, setting.head, setting.lease};
  const Error why = co_await protocol::hold_head_link(system, std::move(options), std::move(make_worker));
  const bool refused = why.code == Errc::not_found || why.code == Errc::conflict;
  leave(refused ? exit_done : exit_lost, "the head: " + why.message());
}

}  // namespace

int run(const ActorTypes& types) {
  const auto setting = read_setting();
  if (!setting) {
    spdlog::error("{}", setting.error().context);
    return exit_usage;
  }
  std::signal(SIGPIPE, SIG_IGN);
  set_threads(setting->threads);

  net::io_context io{1};
  runtime::SystemClock clock;
  const auto transport = runtime::make_tcp_transport(io.get_executor());
  runtime::ActorSystem system({.name = setting->worker_id,
                               .executor = io.get_executor(),
                               .clock = clock,
                               .transport = *transport,
                               .secret = setting->secret,
                               .account = protocol::accounts::job(setting->job_id)});
  runtime::TaskGroup tasks(io.get_executor(), "worker");
  if (setting->lifeline) tasks.spawn("watch lifeline", watch_lifeline(*setting->lifeline));
  tasks.spawn("watch signals", watch_signals());
  tasks.spawn("serve", serve(system, *setting, types));
  const auto warming = warm_up();
  runtime::run(io);
  return exit_done;
}

}  // namespace weir::worker
