#include "runtime/actor_system.hpp"

#include <boost/asio/co_spawn.hpp>

#include "base/ensure.hpp"
#include "runtime/actor_cell.hpp"
#include "runtime/event.hpp"
#include "runtime/on.hpp"
#include "runtime/peer.hpp"
#include "runtime/system_core.hpp"

namespace weir::runtime {

ActorSystem::ActorSystem(Options options) : core_(SystemCore::make(std::move(options))), router_(core_) {}

ActorSystem::~ActorSystem() { core_->cut_off(); }

Result<Address> ActorSystem::add(NewActor actor) {
  ActorCell::Parts parts;
  parts.object = std::move(actor.object);
  parts.type = actor.type;
  parts.interfaces = std::move(actor.interfaces);
  parts.options = std::move(actor.options);
  return core_->add_actor(*this, std::move(parts));
}

namespace {

net::awaitable<void> stop_cell(std::shared_ptr<ActorCell> cell) { co_await cell->stop(); }

}  // namespace

void ActorSystem::stop_actor(std::uint64_t actor) {
  auto cell = core_->find_actor(actor);
  if (!cell) return;
  core_->remove_actor(cell->id());
  net::co_spawn(cell->executor(), stop_cell(cell),
                [cell](const std::exception_ptr& thrown) { ensure(!thrown, "stopping an actor does not throw"); });
}

Result<Endpoint> ActorSystem::listen(const Endpoint& at) { return core_->listen(at); }

void ActorSystem::allow(const std::string& account, std::string secret) { core_->allow(account, std::move(secret)); }

void ActorSystem::forbid(const std::string& account, const std::string& why) { core_->forbid(account, why); }

net::awaitable<Result<PeerId>> ActorSystem::connect(Endpoint to) {
  auto core = core_;
  auto link = co_await core->options().transport.connect(to);
  if (!link) co_return link.error().within("cannot reach " + to.text());
  auto peer = core->begin_link(std::move(*link), true);
  if (!peer) co_return Error{Errc::cancelled, "the actor system has stopped"};
  const bool decided = co_await peer->ready().wait();
  if (!decided) {
    peer->give_up({Errc::cancelled, "the connection is not wanted any more"});
    co_return Error{Errc::cancelled, "connecting to " + to.text()};
  }
  auto outcome = peer->outcome();
  if (!outcome) co_return outcome.error().within(to.text());
  co_return outcome;
}

void ActorSystem::disconnect(PeerId peer, std::string why) {
  if (auto found = core_->find_peer(peer.value)) found->give_up({Errc::peer_lost, std::move(why)});
}

void ActorSystem::on_peer_lost(net::any_io_executor executor, PeerLost callback) {
  core_->on_peer_lost(std::move(executor), std::move(callback));
}

std::vector<ActorInfo> ActorSystem::actors() const {
  std::vector<ActorInfo> infos;
  for (const auto& cell : core_->cells()) infos.push_back(cell->info());
  return infos;
}

std::vector<PeerInfo> ActorSystem::peers() const {
  std::vector<PeerInfo> infos;
  for (const auto& peer : core_->peers()) infos.push_back(peer->info());
  return infos;
}

PeerId ActorSystem::id() const { return {core_->process()}; }

const std::string& ActorSystem::name() const { return core_->options().name; }

Clock& ActorSystem::clock() const { return core_->options().clock; }

net::awaitable<void> ActorSystem::stop() {
  auto core = core_;
  core->close_doors();
  for (const auto& cell : core->cells()) {
    auto stopping = stop_cell(cell);
    co_await on(cell->executor(), std::move(stopping));
    core->remove_actor(cell->id());
  }
  core->cut_off();
}

}  // namespace weir::runtime
