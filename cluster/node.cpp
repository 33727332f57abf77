#include "cluster/node.hpp"

#include <boost/asio/thread_pool.hpp>
#include <optional>
#include <random>

#include "base/errc.hpp"
#include "cluster/host.hpp"
#include "cluster/node_agent.hpp"
#include "protocol/accounts.hpp"
#include "runtime/event.hpp"

namespace weir::cluster {
namespace {

/// Fills in the options that the user left open.
NodeOptions completed(NodeOptions options, std::optional<net::thread_pool>& gpu_thread) {
  if (options.name.empty()) options.name = host::name();
  auto resources = host::resources();
  for (const auto& [name, amount] : options.resources) resources[name] = amount;
  options.resources = std::move(resources);
  while (options.incarnation == 0) {
    std::random_device entropy;
    options.incarnation = (std::uint64_t{entropy()} << 32) | entropy();
  }
  if (options.gpus.probe && !options.blocking) options.blocking = gpu_thread.emplace(1).get_executor();
  return options;
}

}  // namespace

struct Node::State {
  State(NodeOptions given, net::any_io_executor executor, runtime::Clock& clock, runtime::Transport& transport,
        runtime::ProcessSpawner& process_spawner)
      : options(completed(std::move(given), gpu_thread)),
        spawner(process_spawner),
        system({.name = options.name,
                .executor = executor,
                .clock = clock,
                .transport = transport,
                .secret = options.secret,
                .account = std::string(protocol::accounts::node)}) {}

  std::optional<net::thread_pool> gpu_thread;
  const NodeOptions options;
  runtime::ProcessSpawner& spawner;
  std::shared_ptr<Result<void>> outcome = std::make_shared<Result<void>>();
  runtime::Event over;
  runtime::ActorSystem system;
};

Node::Node(NodeOptions options, net::any_io_executor executor, runtime::Clock& clock, runtime::Transport& transport,
           runtime::ProcessSpawner& spawner)
    : state_(std::make_unique<State>(std::move(options), std::move(executor), clock, transport, spawner)) {}

Node::~Node() = default;

net::awaitable<Result<void>> Node::run() {
  auto hopeless = [outcome = state_->outcome, over = state_->over](Error why) {
    *outcome = std::move(why);
    over.set();
  };
  auto agent = state_->system.spawn<AgentActor>("agent", state_->options, state_->spawner, std::move(hopeless));
  if (!agent) co_return agent.error();
  const auto over = state_->over;
  const auto outcome = state_->outcome;
  co_await over.wait();
  co_return *outcome;
}

net::awaitable<void> Node::stop() {
  co_await state_->system.stop();
  state_->over.set();
}

}  // namespace weir::cluster
