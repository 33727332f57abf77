#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/errc.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/descriptors.hpp"
#include "cli/exit_code.hpp"
#include "cli/resources.hpp"
#include "cli/run_loop.hpp"
#include "cluster/data_dir.hpp"
#include "cluster/gpus.hpp"
#include "cluster/node.hpp"
#include "runtime/asio.hpp"
#include "runtime/clock.hpp"
#include "runtime/process.hpp"
#include "runtime/task_group.hpp"
#include "runtime/tcp_transport.hpp"

namespace weir::cli {
namespace {

namespace net = boost::asio;

using runtime::nothrow;

struct Options {
  std::string head;
  std::filesystem::path secret_file;
  std::string resources;
  std::string labels;
  std::string name;
  std::string host;
  std::string worker;
  std::string modules;
};

/// Runs a node until it gives up or SIGINT or SIGTERM ends it. Returns the exit code.
class Daemon {
 public:
  Daemon(net::any_io_executor executor, cluster::Node& node)
      : node_(node), signals_(executor, SIGINT, SIGTERM), tasks_(executor, "weir node") {}

  net::awaitable<int> serve() {
    tasks_.spawn("signals", watch_signals());
    auto ended = co_await node_.run();
    signals_.cancel();
    co_await tasks_.join();
    if (!ended) co_return complain(ended.error());
    co_return interrupted_ ? ExitCode::interrupted : ExitCode::ok;
  }

 private:
  net::awaitable<void> watch_signals() {
    const auto [stopped, number] = co_await signals_.async_wait(nothrow);
    if (stopped) co_return;
    interrupted_ = number == SIGINT;
    say("weir node: stopping");
    co_await node_.stop();
  }

  cluster::Node& node_;
  net::signal_set signals_;
  runtime::TaskGroup tasks_;
  bool interrupted_ = false;
};

/// The secret from --secret-file, else WEIR_NODE_SECRET, else the data directory of a head on this machine. It cannot
/// be an argument, since everybody on the machine can read those.
Result<std::string> node_secret(const Settings& settings, const Options& options) {
  if (!options.secret_file.empty()) return cluster::read_secret_file(options.secret_file);
  if (const char* given = std::getenv("WEIR_NODE_SECRET"); given != nullptr && *given != '\0')
    return std::string(given);
  auto found = cluster::read_secret_file(settings.data_dir / cluster::node_secret_file);
  if (found || found.error().code != Errc::not_found) return found;
  return Error{Errc::unauthenticated,
               "a node needs the secret that lets it join: give it with --secret-file or WEIR_NODE_SECRET (the head "
               "keeps it in its data directory, in the file node_secret)"};
}

int node(const Settings& settings, const Options& options) {
  auto resources = parse_resources(options.resources);
  if (!resources) return complain(resources.error().within("--resources"));
  auto labels = parse_labels(options.labels);
  if (!labels) return complain(labels.error().within("--labels"));
  auto secret = node_secret(settings, options);
  if (!secret) return complain(secret.error());
  cluster::NodeOptions node_options;
  node_options.head = options.head;
  node_options.secret = std::move(*secret);
  node_options.name = options.name;
  node_options.host = options.host;
  node_options.resources = std::move(*resources);
  node_options.labels = std::move(*labels);
  node_options.version = WEIR_VERSION;
  node_options.worker_program = options.worker.empty() ? worker_program().string() : options.worker;
  if (!options.modules.empty()) {
    std::error_code failure;
    const auto modules = std::filesystem::canonical(options.modules, failure);
    if (failure || !std::filesystem::is_directory(modules, failure)) {
      return complain({Errc::invalid_argument, "--modules: " + options.modules + " is not a directory"});
    }
    node_options.modules = modules.string();
  }
  if (node_options.worker_program.empty() || ::access(node_options.worker_program.c_str(), X_OK) != 0) {
    return complain({Errc::io, "a node needs the program weir-worker beside " + own_program().string() +
                                   ", or where --worker says; there is none that can be run"});
  }

  std::optional<std::string> visible;
  if (const char* given = std::getenv(cluster::visible_devices_variable)) visible = given;
  auto gpus = cluster::offer_gpus(node_options, cluster::make_nvml_probe(), visible);
  if (!gpus) return complain(gpus.error().within("--resources"));
  for (const auto& remark : *gpus) say("weir node: " + remark);

  raise_descriptor_limit();
  net::io_context io{1};
  runtime::SystemClock clock;
  auto transport = runtime::make_tcp_transport(io.get_executor());
  auto spawner = runtime::make_process_spawner();
  cluster::Node node(std::move(node_options), io.get_executor(), clock, *transport, *spawner);
  Daemon daemon(io.get_executor(), node);
  return run_loop(io, daemon.serve());
}

}  // namespace

void add_node(CLI::App& program, Choice& choice) {
  CLI::App* command = program.add_subcommand("node", "A node of a cluster, in the foreground; or look at nodes");
  command->require_subcommand(0, 1);
  add_node_queries(*command, choice);

  auto options = std::make_shared<Options>();
  command->add_option("--head", options->head, "HOST:PORT where the head listens for nodes");
  command->add_option("--secret-file", options->secret_file,
                      "File with the head's node secret (<data-dir>/node_secret of the head); by default "
                      "WEIR_NODE_SECRET, or --data-dir where the head runs on this machine");
  command->add_option(
      "--resources", options->resources,
      "What the node offers: cpu=4,gpu=1,memory=8GiB,...; cores, memory and GPUs are found out by default");
  command->add_option("--labels", options->labels, "zone=a,...");
  command->add_option("--name", options->name, "Unique in the cluster; by default the host's name");
  command->add_option("--host", options->host, "Address at which workers of other nodes reach this one's");
  command->add_option("--worker", options->worker, "The weir-worker program; by default the one beside this program");
  command->add_option("--modules", options->modules,
                      "Directory of TorchScript modules that jobs may train by name: workers run the code in them");
  command->callback([&choice, command, options] {
    if (!command->get_subcommands().empty()) return;
    if (options->head.empty()) throw CLI::RequiredError("--head (or one of list, show, drain, forget)");
    choice.run = [options](const Settings& settings) { return node(settings, *options); };
  });
}

}  // namespace weir::cli
