#include "runtime/system_core.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <cstring>

#include "base/hmac.hpp"
#include "runtime/peer.hpp"

namespace weir::runtime {
namespace {

/// Never 0, which is the process of an empty address.
std::uint64_t draw_process_number() {
  const Digest random = random_digest();
  std::uint64_t number = 0;
  std::memcpy(&number, random.data(), sizeof number);
  return number | 1;
}

}  // namespace

class SystemCore::LocalAnswers final : public ReplyPort {
 public:
  explicit LocalAnswers(std::shared_ptr<CallTable> calls) : calls_(std::move(calls)) {}
  void answer(std::uint64_t call, Answer& answer) override {
    if (auto waiting = calls_->take(call)) waiting->accept_local(answer.value());
  }

 private:
  std::shared_ptr<CallTable> calls_;
};

std::shared_ptr<SystemCore> SystemCore::make(ActorSystem::Options options) {
  return std::shared_ptr<SystemCore>(new SystemCore(std::move(options)));
}

SystemCore::SystemCore(ActorSystem::Options options)
    : options_(std::move(options)),
      process_(draw_process_number()),
      local_calls_(std::make_shared<CallTable>(options_.clock, net::make_strand(options_.executor))),
      local_answers_(std::make_shared<LocalAnswers>(local_calls_)) {
  secrets_.emplace(options_.account, options_.secret);
}

Result<CallKey> SystemCore::call(const Address& to, const MethodKey& method, Clock::duration limit, Message& message,
                                 std::unique_ptr<PendingReply>& waiting) {
  if (to.process != process_) {
    auto peer = find_peer(to.process);
    if (!peer) return Error{Errc::peer_lost, "no link to the process of " + std::string(method.name)};
    return peer->call(to.actor, method, limit, message, waiting);
  }
  auto cell = find_actor(to.actor);
  void* object = cell ? cell->find_interface(method.interface) : nullptr;
  if (object == nullptr) return Error{Errc::not_found, "no such actor: " + std::string(method.name)};
  auto call = local_calls_->add(limit, waiting);
  if (!call) return call.error();
  auto turn = message.turn(object, {local_answers_, *call});
  if (auto accepted = cell->accept(turn); !accepted) {
    waiting = local_calls_->take(*call);
    if (waiting) return accepted.error();  // otherwise its deadline has passed and has resumed the caller
  }
  return CallKey{local_calls_, *call};
}

Result<void> SystemCore::tell(const Address& to, const MethodKey& method, Message& message) {
  if (to.process != process_) {
    auto peer = find_peer(to.process);
    if (!peer) return Error{Errc::peer_lost, "no link to the process of " + std::string(method.name)};
    return peer->tell(to.actor, method, message);
  }
  auto cell = find_actor(to.actor);
  void* object = cell ? cell->find_interface(method.interface) : nullptr;
  if (object == nullptr) return Error{Errc::not_found, "no such actor: " + std::string(method.name)};
  auto turn = message.turn(object, {});
  return cell->accept(turn);
}

Result<Address> SystemCore::add_actor(ActorSystem& system, ActorCell::Parts parts) {
  std::shared_ptr<ActorCell> cell;
  {
    std::scoped_lock lock(mutex_);
    if (closed_) return Error{Errc::cancelled, "the actor system is stopping"};
    const std::string& name = parts.options.name;
    const std::uint64_t alias = ActorSystem::named_actor(name);
    if (!name.empty() && actors_.contains(alias)) return Error{Errc::conflict, "an actor is called \"" + name + "\""};
    parts.id = next_actor_++;
    cell = std::make_shared<ActorCell>(system, options_.clock, shared_from_this(), net::make_strand(options_.executor),
                                       std::move(parts));
    actors_.emplace(cell->id(), cell);
    if (!cell->name().empty()) actors_.emplace(alias, cell);
    cell->start();
  }
  return Address{process_, cell->id()};
}

void SystemCore::remove_actor(std::uint64_t id) {
  std::scoped_lock lock(mutex_);
  auto found = actors_.find(id);
  if (found == actors_.end()) return;
  auto cell = found->second;
  actors_.erase(found);
  if (!cell->name().empty()) actors_.erase(ActorSystem::named_actor(cell->name()));
}

std::shared_ptr<ActorCell> SystemCore::find_actor(std::uint64_t id) const {
  std::scoped_lock lock(mutex_);
  auto found = actors_.find(id);
  return found == actors_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<ActorCell>> SystemCore::cells() const {
  std::scoped_lock lock(mutex_);
  std::map<std::uint64_t, std::shared_ptr<ActorCell>> by_age;
  for (const auto& [id, cell] : actors_) by_age.emplace(cell->id(), cell);
  std::vector<std::shared_ptr<ActorCell>> cells;
  for (auto& [id, cell] : by_age) cells.push_back(std::move(cell));
  return cells;
}

Result<Endpoint> SystemCore::listen(const Endpoint& at) {
  auto listener = options_.transport.listen(options_.executor, at, [weak = weak_from_this()](auto link) {
    if (auto self = weak.lock()) self->accept_link(std::move(link));
  });
  if (!listener) return listener.error();
  const Endpoint bound = (*listener)->endpoint();
  std::scoped_lock lock(mutex_);
  if (closed_) return Error{Errc::cancelled, "the actor system is stopping"};
  listeners_.push_back(std::move(*listener));
  return bound;
}

void SystemCore::accept_link(std::shared_ptr<Link> link) {
  std::shared_ptr<Peer> displaced;
  {
    std::scoped_lock lock(mutex_);
    if (closed_) return;  // dropping the only reference closes it
    if (handshaking_.size() >= options_.unauthenticated_links_max) {
      const auto oldest = std::find_if(handshaking_.begin(), handshaking_.end(),
                                       [](const std::shared_ptr<Peer>& peer) { return peer->incoming(); });
      if (oldest == handshaking_.end()) return;
      displaced = *oldest;
      handshaking_.erase(oldest);
    }
  }
  // The oldest unauthenticated link makes room: a node that knows its secret must not wait behind strangers.
  if (displaced) displaced->give_up({Errc::exhausted, "too many links have not proven themselves"});
  begin_link(std::move(link), false);
}

std::shared_ptr<Peer> SystemCore::begin_link(std::shared_ptr<Link> link, bool connecting) {
  auto peer = std::make_shared<Peer>(shared_from_this(), std::move(link),
                                     connecting ? Handshake::Role::connect : Handshake::Role::listen);
  {
    std::scoped_lock lock(mutex_);
    // Looked at here, since cut_off() gives up what it finds here once. Dropping the only reference closes the link.
    if (connecting ? cut_off_ : closed_) return nullptr;
    handshaking_.push_back(peer);
  }
  peer->start();
  return peer;
}

void SystemCore::allow(const std::string& account, std::string secret) {
  std::scoped_lock lock(mutex_);
  secrets_.insert_or_assign(account, std::move(secret));
}

void SystemCore::forbid(const std::string& account, const std::string& why) {
  std::vector<std::shared_ptr<Peer>> inside;
  {
    std::scoped_lock lock(mutex_);
    secrets_.erase(account);
    for (const auto& [id, peer] : peers_)
      if (peer->account() == account) inside.push_back(peer);
  }
  for (const auto& peer : inside) peer->give_up({Errc::peer_lost, why});
}

std::optional<std::string> SystemCore::secret_of(std::string_view account) const {
  std::scoped_lock lock(mutex_);
  const auto found = secrets_.find(account);
  return found == secrets_.end() ? std::nullopt : std::optional(found->second);
}

Result<void> SystemCore::joined(const std::shared_ptr<Peer>& peer) {
  std::shared_ptr<Peer> older;
  const PeerInfo info = peer->info();
  {
    std::scoped_lock lock(mutex_);
    std::erase(handshaking_, peer);
    const auto known = peers_.find(info.id.value);
    if (!secrets_.contains(info.account)) return Error{Errc::unauthenticated, "this account has ended"};
    if (known != peers_.end() && known->second->account() != info.account) {
      return Error{Errc::conflict, "another process has this number"};
    }
    older = std::exchange(peers_[info.id.value], peer);
  }
  if (older) {
    const Error replaced{Errc::peer_lost, "the peer has linked itself anew"};
    older->give_up(replaced);
    tell_lost(older->info(), replaced);
  }
  spdlog::info("{}: linked with {} at {}", options_.name, info.name, info.remote);
  return {};
}

void SystemCore::ended(const std::shared_ptr<Peer>& peer, const Error& why) {
  const PeerInfo info = peer->info();
  {
    std::scoped_lock lock(mutex_);
    std::erase(handshaking_, peer);
    auto found = peers_.find(info.id.value);
    if (found == peers_.end() || found->second != peer) return;
    peers_.erase(found);
  }
  const bool went = why.code == Errc::peer_lost || why.code == Errc::cancelled;
  spdlog::log(went ? spdlog::level::info : spdlog::level::warn, "{}: lost {} at {}: {}", options_.name, info.name,
              info.remote, why.message());
  tell_lost(info, why);
}

std::shared_ptr<Peer> SystemCore::find_peer(std::uint64_t process) const {
  std::scoped_lock lock(mutex_);
  auto found = peers_.find(process);
  return found == peers_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Peer>> SystemCore::peers() const {
  std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<Peer>> all;
  for (const auto& [id, peer] : peers_) all.push_back(peer);
  return all;
}

void SystemCore::on_peer_lost(net::any_io_executor executor, ActorSystem::PeerLost callback) {
  std::scoped_lock lock(mutex_);
  lost_callbacks_.emplace_back(std::move(executor), std::move(callback));
}

void SystemCore::tell_lost(const PeerInfo& peer, const Error& why) {
  std::scoped_lock lock(mutex_);
  for (const auto& [executor, callback] : lost_callbacks_) {
    net::post(executor, [callback = callback, peer, why] { callback(peer, why); });
  }
}

void SystemCore::close_doors() {
  std::vector<std::unique_ptr<Listener>> listeners;
  std::scoped_lock lock(mutex_);
  closed_ = true;
  listeners.swap(listeners_);
}

void SystemCore::cut_off() {
  close_doors();
  std::unordered_map<std::uint64_t, std::shared_ptr<ActorCell>> actors;
  std::unordered_map<std::uint64_t, std::shared_ptr<Peer>> peers;
  std::vector<std::shared_ptr<Peer>> handshaking;
  {
    std::scoped_lock lock(mutex_);
    cut_off_ = true;
    actors.swap(actors_);
    peers.swap(peers_);
    handshaking.swap(handshaking_);
    lost_callbacks_.clear();
  }
  const Error why{Errc::cancelled, "the actor system has stopped"};
  for (const auto& [id, peer] : peers) peer->give_up(why);
  for (const auto& peer : handshaking) peer->give_up(why);
  local_calls_->close(why);
}

}  // namespace weir::runtime
