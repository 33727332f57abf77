#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/errc.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/run_loop.hpp"
#include "cli/up_arguments.hpp"
#include "cluster/data_dir.hpp"
#include "cluster/gpus.hpp"
#include "cluster/host.hpp"
#include "runtime/asio.hpp"
#include "runtime/process.hpp"
#include "runtime/task_group.hpp"

namespace weir::cli {
namespace {

namespace net = boost::asio;

using runtime::nothrow;

/// The time for nodes and head to end by themselves; a node gives its workers half of that.
constexpr std::chrono::seconds stop_grace{15};

/// The default control port, which nodes started in other terminals expect, if it is free.
std::string control_address() {
  net::io_context io;
  net::ip::tcp::acceptor probe(io, net::ip::tcp::v4());
  boost::system::error_code taken;
  probe.set_option(net::socket_base::reuse_address(true));
  probe.bind({net::ip::address_v4::loopback(), 6380}, taken);
  return taken ? "127.0.0.1:0" : "127.0.0.1:6380";
}

/// A head and its nodes as child processes. Runs on one thread.
class Up {
 public:
  Up(net::io_context& io, const Settings& settings, const UpOptions& options)
      : settings_(settings),
        options_(options),
        executor_(io.get_executor()),
        signals_(io, SIGINT, SIGTERM, SIGHUP),
        tasks_(executor_, "up"),
        spawner_(runtime::make_process_spawner()) {}

  net::awaitable<int> run() {
    auto started = start("head", head_arguments(settings_.data_dir, options_), runtime::current_environment());
    if (!started) co_return complain(started.error());
    const auto [failed, signal] = co_await signals_.async_wait(nothrow);
    stopping_ = true;
    if (!failed) say("stopping");
    co_await stop();
    if (failed) co_return ExitCode::failed;  // the head ended by itself
    co_return signal == SIGINT ? ExitCode::interrupted : ExitCode::ok;
  }

 private:
  struct Child {
    std::string name;
    std::unique_ptr<runtime::Process> process;
    bool ended = false;
  };

  Result<void> start(const std::string& name, std::vector<std::string> arguments,
                     std::map<std::string, std::string> environment) {
    auto process = spawner_->spawn(
        executor_,
        {.program = own_program().string(), .arguments = std::move(arguments), .environment = std::move(environment)});
    if (!process) return process.error().within("starting " + name);
    Child& child = *children_.emplace_back(std::make_unique<Child>(name, std::move(*process)));
    tasks_.spawn(name, watch(child));
    return {};
  }

  /// Passes a child's output on until it ends.
  net::awaitable<void> watch(Child& child) {
    std::string rest;
    while (true) {
      auto output = co_await child.process->read_output();
      if (!output || output->empty()) break;
      rest += *output;
      std::size_t begin = 0;
      for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
        say(child.name + " | " + rest.substr(begin, end - begin));
      }
      rest.erase(0, begin);
      // The head publishes its addresses before it prints them. It may print its first line when all is being stopped.
      if (child.name == "head" && children_.size() == 1 && !stopping_) start_nodes(child.process->pid());
    }
    auto exit = co_await child.process->wait();
    child.ended = true;
    if (stopping_ || !exit) co_return;
    const std::string how = exit->signal ? "was killed by signal " + std::to_string(*exit->signal)
                                         : "ended with exit code " + std::to_string(exit->exit_code.value_or(0));
    say(child.name + " " + how);
    if (child.name == "head") signals_.cancel();
  }

  /// What CUDA_VISIBLE_DEVICES is for each node, so that each GPU belongs to one of them; empty if there are none.
  std::vector<std::string> divided_gpus() const {
    auto probe = cluster::make_nvml_probe();
    auto readings = probe ? (*probe)->read() : Result<std::vector<cluster::GpuProbe::Reading>>(probe.error());
    if (!readings || readings->empty()) return {};
    std::vector<protocol::Gpu> all;
    for (auto& reading : *readings) all.push_back(std::move(reading.gpu));
    std::optional<std::string> given;
    if (const char* value = std::getenv(cluster::visible_devices_variable)) given = value;
    const auto gpus = cluster::visible_gpus(all, given).gpus;
    std::vector<std::string> lists(options_.nodes);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      std::string& list = lists[i * lists.size() / gpus.size()];
      list += (list.empty() ? "" : ",") + gpus[i].uuid;
    }
    return lists;
  }

  void start_nodes(std::uint32_t head_pid) {
    std::ifstream file(settings_.data_dir / "endpoints.json");
    const auto endpoints = nlohmann::json::parse(file, nullptr, false);
    if (number(endpoints, "pid") != head_pid) return;  // not written yet: the file is from an earlier head
    auto environment = runtime::current_environment();
    auto secret = cluster::read_secret_file(settings_.data_dir / cluster::node_secret_file);
    if (!secret) return say(secret.error().message());
    environment.erase("WEIR_TOKEN");  // a node does not need it
    environment["WEIR_NODE_SECRET"] = std::move(*secret);
    const auto gpus = options_.nodes > 1 ? divided_gpus() : std::vector<std::string>();
    for (unsigned i = 1; i <= options_.nodes; ++i) {
      if (!gpus.empty()) environment[cluster::visible_devices_variable] = gpus[i - 1];
      auto arguments = node_arguments(i, text(endpoints, "control"), options_, cluster::host::resources());
      auto started = start("node-" + std::to_string(i), std::move(arguments), environment);
      if (!started) say(started.error().message());
    }
  }

  /// Stops the nodes first, so that the head hears of their end.
  net::awaitable<void> stop() {
    net::steady_timer patience(executor_, stop_grace);
    patience.async_wait([this](boost::system::error_code done) {
      if (!done) signal_all(SIGKILL);
    });
    for (bool head : {false, true}) {
      for (const auto& child : children_) {
        if ((child->name == "head") == head) child->process->signal(SIGTERM);
      }
      for (std::size_t i = 0; i < children_.size(); ++i) {  // no iterator is kept while others run
        Child& child = *children_[i];
        if ((child.name == "head") == head) co_await child.process->wait();
      }
    }
    patience.cancel();
    co_await tasks_.join();  // for their last output
  }

  void signal_all(int number) {
    for (const auto& child : children_) child->process->signal(number);
  }

  const Settings& settings_;
  const UpOptions& options_;
  net::any_io_executor executor_;
  net::signal_set signals_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Child>> children_;
  runtime::TaskGroup tasks_;
  std::unique_ptr<runtime::ProcessSpawner> spawner_;
};

int up(const Settings& settings, const UpOptions& given) {
  UpOptions options = given;
  if (options.listen.empty()) options.listen = control_address();
  net::io_context io{1};
  Up all(io, settings, options);
  return run_loop(io, all.run());
}

}  // namespace

void add_up(CLI::App& program, Choice& choice) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command =
      add_command(program, choice, "up", "A head and nodes on this machine, until Ctrl-C stops all of it", options, up);
  command->add_option("--nodes", options->nodes, "How many nodes")->capture_default_str();
  command
      ->add_option("--cpus-per-node", options->cpus_per_node,
                   "Cores each node offers; by default its share of the machine's, at least 2. Of the machine's "
                   "memory and GPUs each node offers its share")
      ->check([](const std::string& given) -> std::string {
        const double cpus = std::strtod(given.c_str(), nullptr);
        return cpus > 0 && std::isfinite(cpus) ? "" : "must be a number above 0";
      });
  command->add_option("--listen", options->listen, "HOST:PORT for nodes; by default 127.0.0.1:6380 if it is free");
  command->add_option("--http", options->http, "HOST:PORT of API and dashboard")->capture_default_str();
  command->add_option("--allow-host", options->allow_hosts, "One more name the head is reached by (repeatable)");
  command->add_option("--public-url", options->public_url,
                      "Where browsers find the head behind a proxy; `weir head --help` says more");
  command->add_flag("--insecure", options->insecure, "Allow addresses beyond loopback, without TLS");
  command->add_option("--modules", options->modules, "Directory of TorchScript modules, for the nodes");
}

}  // namespace weir::cli
