#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor_cell.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/call_table.hpp"

namespace weir::runtime {

class Peer;

/// The implementation of ActorSystem: its actors, its peers, and the routing of messages to both. Shared by the system,
/// its links and all ActorRefs. Thread-safe.
class SystemCore final : public Router, public std::enable_shared_from_this<SystemCore> {
 public:
  static std::shared_ptr<SystemCore> make(ActorSystem::Options options);

  // Router
  std::uint64_t process() const override { return process_; }
  Result<CallKey> call(const Address& to, const MethodKey& method, Clock::duration limit, Message& message,
                       std::unique_ptr<PendingReply>& waiting) override;
  Result<void> tell(const Address& to, const MethodKey& method, Message& message) override;

  // Actors
  Result<Address> add_actor(ActorSystem& system, ActorCell::Parts parts);
  void remove_actor(std::uint64_t id);
  std::shared_ptr<ActorCell> find_actor(std::uint64_t id) const;
  std::vector<std::shared_ptr<ActorCell>> cells() const;

  // Links
  Result<Endpoint> listen(const Endpoint& at);
  /// Null if it comes too late: the system accepts no links any more or, for one that it opens itself, is cut off.
  std::shared_ptr<Peer> begin_link(std::shared_ptr<Link> link, bool connecting);
  void allow(const std::string& account, std::string secret);
  void forbid(const std::string& account, const std::string& why);
  std::optional<std::string> secret_of(std::string_view account) const;
  /// Adds a peer whose handshake has succeeded. If there is a peer with the same process number, the new one replaces
  /// it, provided that it has proven the same account. Otherwise it is refused, since process numbers are no secret.
  /// Fails with: conflict (another process has this number), unauthenticated (the account has ended meanwhile).
  Result<void> joined(const std::shared_ptr<Peer>& peer);
  void ended(const std::shared_ptr<Peer>& peer, const Error& why);
  std::shared_ptr<Peer> find_peer(std::uint64_t process) const;
  std::vector<std::shared_ptr<Peer>> peers() const;
  void on_peer_lost(net::any_io_executor executor, ActorSystem::PeerLost callback);

  /// Closes the listeners. From now on there are no new actors, listeners or incoming links.
  void close_doors();
  /// Drops every actor, link and waiting caller.
  void cut_off();

  const ActorSystem::Options& options() const { return options_; }

 private:
  explicit SystemCore(ActorSystem::Options options);
  void accept_link(std::shared_ptr<Link> link);
  void tell_lost(const PeerInfo& peer, const Error& why);

  /// The ReplyPort of callers in this process.
  class LocalAnswers;

  ActorSystem::Options options_;
  const std::uint64_t process_;
  std::shared_ptr<CallTable> local_calls_;
  std::shared_ptr<ReplyPort> local_answers_;

  mutable std::mutex mutex_;
  bool closed_ = false;   ///< close_doors() was called
  bool cut_off_ = false;  ///< cut_off() was called
  std::uint64_t next_actor_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<ActorCell>>
      actors_;  ///< by number, and by named_actor() of the name
  std::unordered_map<std::uint64_t, std::shared_ptr<Peer>> peers_;
  std::vector<std::shared_ptr<Peer>> handshaking_;
  std::map<std::string, std::string, std::less<>> secrets_;  ///< by account
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::pair<net::any_io_executor, ActorSystem::PeerLost>> lost_callbacks_;
};

}  // namespace weir::runtime
