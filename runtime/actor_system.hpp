#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor.hpp"
#include "runtime/clock.hpp"
#include "runtime/transport.hpp"

namespace weir::runtime {

/// Identifies a process with an ActorSystem, by the number it drew at its start.
struct PeerId {
  std::uint64_t value = 0;
  friend auto operator<=>(const PeerId&, const PeerId&) = default;
};

struct PeerInfo {
  PeerId id;
  std::string name;     ///< what the peer calls itself
  std::string account;  ///< the account that the link is authenticated with
  std::string remote;   ///< its address as this end sees it
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

enum class ActorState : std::uint8_t { running, stopping };

struct ActorInfo {
  std::uint64_t id = 0;
  std::string name;  ///< empty if it has none
  std::string type;
  ActorState state = ActorState::running;
  std::size_t mailbox_depth = 0;  ///< messages accepted and not finished
  std::size_t mailbox_max = 0;
  std::uint64_t messages_handled = 0;
  std::uint64_t messages_refused = 0;  ///< because the mailbox was full
};

struct SpawnOptions {
  std::string name;                ///< unique in the system; empty: reachable by reference only
  std::size_t mailbox_max = 4096;  ///< messages accepted and not finished; one more gets Errc::mailbox_full
  bool serial = false;             ///< finish each message before the next begins, also across co_await
};

/// Maps the number of a method to the function that parses its messages.
struct MethodEntry {
  std::uint64_t id;
  Result<std::unique_ptr<Turn>> (*parse)(void* actor, Reader& in, Reply reply);
};

/// One interface of an actor object.
struct InterfaceEntry {
  std::uint64_t id;
  void* object;
  std::span<const MethodEntry> methods;
};

class SystemCore;

/// The actors of one process and its links to others. Owned by main; outlives its actors. Any thread may call it.
class ActorSystem {
 public:
  struct Options {
    std::string name;  ///< for people: shown in logs and to peers
    net::any_io_executor executor;
    Clock& clock;
    Transport& transport;
    std::string secret;  ///< both ends of a link must know it; never sent
    /// The account that the secret belongs to. The listening end admits peers that prove to know the secret of this
    /// account or of one added with allow().
    std::string account = {};
    std::chrono::milliseconds handshake_limit{5000};
    /// A peer that has sent nothing for this long is pinged.
    std::chrono::milliseconds ping_interval{1000};
    /// A peer without a sign of life for this long is lost: nothing comes from it, and it does not acknowledge bytes
    /// that were queued before the last ping.
    std::chrono::milliseconds silence_limit{10'000};
    std::size_t unauthenticated_links_max = 256;  ///< a further incoming link displaces the oldest
  };
  using PeerLost = std::function<void(const PeerInfo&, const Error& why)>;

  explicit ActorSystem(Options options);
  /// Drops all actors, links and waiting callers at once; for an orderly end, await stop() first.
  ~ActorSystem();
  ActorSystem(const ActorSystem&) = delete;
  ActorSystem& operator=(const ActorSystem&) = delete;

  /// Creates an actor. Impl derives from Actor<Interfaces...>. Fails with: conflict (the name is taken), cancelled.
  template <class Impl, class... Args>
  Result<ActorRef<Impl>> spawn(std::string name, Args&&... args) {
    return spawn_with<Impl>(SpawnOptions{.name = std::move(name)}, std::forward<Args>(args)...);
  }
  template <class Impl, class... Args>
  Result<ActorRef<Impl>> spawn_with(SpawnOptions options, Args&&... args);

  /// A reference to the actor called `name` in `peer` (in this process if `peer` is id()). Whether the actor exists
  /// shows at the first call.
  template <class T>
  ActorRef<T> find(PeerId peer, std::string_view name) const {
    return {router(), {peer.value, named_actor(name)}};
  }
  /// A reference to the actor with this number in `peer`.
  template <class T>
  ActorRef<T> ref(PeerId peer, std::uint64_t actor) const {
    return {router(), {peer.value, actor}};
  }

  /// Starts to stop an actor of this process: it accepts no more messages, waiting ones fail with Errc::cancelled,
  /// running ones are cancelled, then on_stop() runs. Idempotent.
  void stop_actor(std::uint64_t actor);

  /// Accepts links at `at` and returns that endpoint with the real port. May be called for several endpoints. Fails
  /// with: io, invalid_argument, cancelled (the system is stopping).
  Result<Endpoint> listen(const Endpoint& at);

  /// From now on admits peers that prove to know the secret of this account. What such a peer may request is for the
  /// actors to decide, see ActorBase::caller().
  void allow(const std::string& account, std::string secret);
  /// Admits no more peers with this account, and closes the links authenticated with it.
  void forbid(const std::string& account, const std::string& why);

  /// Opens a link to a listening system and completes the handshake. Fails with: io, unauthenticated, unsupported
  /// (other version), deadline_exceeded, peer_lost, cancelled.
  net::awaitable<Result<PeerId>> connect(Endpoint to);

  /// Closes the link; the peer counts as lost. Unknown ids are ignored.
  void disconnect(PeerId peer, std::string why);

  /// Registers a callback that runs on `executor` for every peer that is lost from now on.
  void on_peer_lost(net::any_io_executor executor, PeerLost callback);

  std::vector<ActorInfo> actors() const;
  std::vector<PeerInfo> peers() const;
  PeerId id() const;
  const std::string& name() const;
  Clock& clock() const;
  const std::shared_ptr<Router>& router() const { return router_; }

  /// Stops listening, stops every actor and waits for it, then closes the links. Waiting callers get Errc::cancelled.
  net::awaitable<void> stop();

  /// The number of the actor with this name, the same in every process.
  static std::uint64_t named_actor(std::string_view name) { return name_hash(name) | (1ull << 63); }

 private:
  struct NewActor {
    std::unique_ptr<ActorBase> object;
    std::string_view type;
    std::vector<InterfaceEntry> interfaces;
    SpawnOptions options;
  };
  Result<Address> add(NewActor actor);

  std::shared_ptr<SystemCore> core_;
  std::shared_ptr<Router> router_;
};

namespace detail {

template <class T, class List>
struct MethodTable;

template <class T, class... Methods>
struct MethodTable<T, MethodList<Methods...>> {
  static constexpr std::array<MethodEntry, sizeof...(Methods)> entries{
      MethodEntry{method_id<Methods::pointer>(), &parse_turn<Methods::pointer>}...};
};

template <class T>
InterfaceEntry interface_entry(T* object) {
  return {interface_id<T>, object, MethodTable<T, decltype(T::methods())>::entries};
}

}  // namespace detail

template <class Impl, class... Args>
Result<ActorRef<Impl>> ActorSystem::spawn_with(SpawnOptions options, Args&&... args) {
  auto object = std::make_unique<Impl>(std::forward<Args>(args)...);
  NewActor actor;
  object->each_interface([&actor](auto* interface) {
    using T = std::remove_pointer_t<decltype(interface)>;
    if (actor.type.empty()) actor.type = T::type_name;
    actor.interfaces.push_back(detail::interface_entry<T>(interface));
  });
  actor.object = std::move(object);
  actor.options = std::move(options);
  auto address = add(std::move(actor));
  if (!address) return address.error();
  return ActorRef<Impl>(router_, *address);
}

}  // namespace weir::runtime
