#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/server.hpp"
#include "cli/catalog_text.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/descriptors.hpp"
#include "cli/exit_code.hpp"
#include "cli/run_loop.hpp"
#include "cluster/data_dir.hpp"
#include "cluster/head.hpp"
#include "cluster/sqlite_store.hpp"
#include "runtime/asio.hpp"
#include "runtime/clock.hpp"
#include "runtime/task_group.hpp"
#include "runtime/tcp_transport.hpp"
#include "training/shapes.hpp"

namespace weir::cli {
namespace {

namespace net = boost::asio;

using runtime::nothrow;

constexpr std::chrono::seconds publish_interval{1};  // between tries to say where the head listens

struct Options {
  std::string listen = "127.0.0.1:6380";
  std::string http = "127.0.0.1:8265";
  std::vector<std::string> allow_hosts;
  std::string public_url;
  bool insecure = false;
};

void announce(const Settings& settings, const Options& options, const std::string& control, api::Server& server) {
  const std::string link = server.login_link();
  if (settings.json) {
    const nlohmann::json line{
        {"control", control}, {"http", server.address()}, {"dashboard", link}, {"pid", ::getpid()}};
    std::cout << line.dump() << std::endl;
  }
  if (options.insecure) {
    say("WARNING: --insecure: this head may listen beyond loopback without TLS. Whoever reads the network sees what "
        "passes, HTTP tokens included.");
  }
  say("weir head " WEIR_VERSION ": nodes join at " + control + ", API and dashboard at http://" + server.address());
  say("nodes prove themselves with the secret in " + (settings.data_dir / cluster::node_secret_file).string());
  say("open the dashboard (once, within the hour): " + link);
}

/// The default limits on HTTP connections, reduced if the process may not open that many descriptors.
api::Limits http_limits(std::uint64_t descriptors) {
  const std::uint64_t connections = http_connections(descriptors);
  api::Limits limits;
  limits.clients_max = std::min<std::uint64_t>(limits.clients_max, connections - connections / 4);
  limits.strangers_max = std::min<std::uint64_t>(limits.strangers_max, connections / 4);
  return limits;
}

/// Says where the head listens, which failed at first: the disk may be full. `weir up` looks for it whenever the head
/// prints a line, and then starts its nodes.
net::awaitable<void> publish_later(const cluster::DataDir& data_dir, std::string control, std::string http,
                                   runtime::Clock& clock) {
  for (;;) {
    const bool slept = co_await clock.sleep_for(publish_interval);
    if (!slept) co_return;
    if (data_dir.publish_endpoints(control, http)) break;
  }
  say("weir head: commands on this machine find it from now on");
}

/// Serves until SIGINT or SIGTERM. Returns the exit code.
net::awaitable<int> serve(const Settings& settings, const Options& options, cluster::DataDir& data_dir,
                          std::shared_ptr<cluster::Store> store, std::string token, std::string node_secret,
                          std::optional<api::PublicUrl> public_url, runtime::Clock& clock,
                          runtime::Transport& transport) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  net::signal_set signals(executor, SIGINT, SIGTERM);
  cluster::HeadOptions head_options;
  head_options.listen = options.listen;
  head_options.data_dir = data_dir.path();
  head_options.node_secret = std::move(node_secret);
  head_options.catalog = nlohmann::json::parse(catalog_text);
  head_options.shape_of = &training::training_shape;
  head_options.version = WEIR_VERSION;
  auto head = co_await cluster::Head::start(std::move(head_options), executor, clock, transport, std::move(store));
  if (!head) co_return complain(head.error());

  api::Server::Options http;
  http.listen = options.http;
  http.token = token;
  http.allow_hosts = options.allow_hosts;
  http.insecure = options.insecure;
  http.public_url = std::move(public_url);
  http.sessions_file = data_dir.path() / "sessions.json";
  http.version = WEIR_VERSION;
  http.limits = http_limits(raise_descriptor_limit());
  auto server = api::Server::start(std::move(http), **head, executor, clock);
  int code = ExitCode::ok;
  if (!server) {
    code = complain(server.error());
  } else {
    const std::string control = (*head)->control_address();
    const std::string address = (*server)->address();
    runtime::TaskGroup tasks(executor, "weir head");
    if (auto published = data_dir.publish_endpoints(control, address); !published) {
      say("WARNING: commands on this machine may not find this head, and `weir up` starts no nodes, until there is " +
          (data_dir.path() / "endpoints.json").string() + ": " + published.error().message() + "; trying again");
      tasks.spawn("publish endpoints", publish_later(data_dir, control, address, clock));
    }
    announce(settings, options, control, **server);
    const auto [failed, signal] = co_await signals.async_wait(nothrow);
    if (signal == SIGINT) code = ExitCode::interrupted;
    say("weir head: stopping");
    co_await tasks.stop(clock);
    co_await (*server)->stop();
  }
  co_await (*head)->stop();
  co_return code;
}

int head(const Settings& settings, const Options& options) {
  ::umask(077);  // what is in the data directory is of concern to nobody else, whoever has made the directory
  if (auto allowed = api::check_listen(options.listen, options.insecure, api::Listener::control); !allowed) {
    return complain(allowed.error());
  }
  if (auto allowed = api::check_listen(options.http, options.insecure); !allowed) return complain(allowed.error());
  std::optional<api::PublicUrl> public_url;
  if (!options.public_url.empty()) {
    auto parsed = api::PublicUrl::parse(options.public_url);
    if (!parsed) return complain(parsed.error().within("--public-url"));
    public_url = std::move(*parsed);
  }
  auto data_dir = cluster::DataDir::open(settings.data_dir);
  if (!data_dir) return complain(data_dir.error());
  auto token = data_dir->token();
  if (!token) return complain(token.error());
  auto node_secret = data_dir->node_secret();
  if (!node_secret) return complain(node_secret.error());

  // Destroyed in reverse order: the loop stops first, then the threads that wait for the disk.
  net::thread_pool writer(1);
  net::thread_pool readers(2);
  net::thread_pool heavy_reader(1);
  auto store = cluster::open_sqlite_store({.file = data_dir->store_file()}, writer.get_executor(),
                                          readers.get_executor(), heavy_reader.get_executor());
  if (!store) return complain(store.error());
  const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 4U));
  net::io_context io(threads);
  runtime::SystemClock clock;
  auto transport = runtime::make_tcp_transport(io.get_executor());
  const int code = run_loop(io,
                            serve(settings, options, *data_dir, std::move(*store), *token, *node_secret,
                                  std::move(public_url), clock, *transport),
                            threads);
  writer.join();
  readers.join();
  return code;
}

}  // namespace

void add_head(CLI::App& program, Choice& choice) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(program, choice, "head", "The head of a cluster, in the foreground", options, head);
  command->add_option("--listen", options->listen, "HOST:PORT where nodes join")->capture_default_str();
  command->add_option("--http", options->http, "HOST:PORT of API and dashboard")->capture_default_str();
  command->add_option("--allow-host", options->allow_hosts, "One more name this head is reached by (repeatable)");
  command->add_option("--public-url", options->public_url,
                      "Where browsers find this head behind a proxy, as https://weir.example: links lead there, its "
                      "name and origin are accepted, and with https cookies are sent over TLS only");
  command->add_flag("--insecure", options->insecure, "Allow addresses beyond loopback, without TLS");
}

}  // namespace weir::cli
