#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weir::api {

/// What the table calls on a connection. Both functions are thread-safe and do not wait.
class TableMember {
 public:
  virtual ~TableMember() = default;
  /// Closes the connection now, whatever it is doing.
  virtual void drop() = 0;
  /// Ends the connection after the present answer; a stream ends at once.
  virtual void end_soon() = 0;
};

/// All open connections, and the limits on their number.
///
/// A connection belongs to a stranger until a request on it has proven that it knows the token; then it belongs to a
/// client. Strangers and clients have separate limits, so that no number of strangers keeps a client out. A new
/// connection is always let in: if the strangers' places are all taken, one stranger is dropped for it. That is, of the
/// address with the most connections, the one that the server has waited for longest. Thus, clients that only hold
/// connections open lose them first, and an address that opens many displaces itself.
/// Owned by the Services. Thread-safe.
class ConnectionTable {
 public:
  using Id = std::uint64_t;

  ConnectionTable(std::size_t strangers_max, std::size_t clients_max)
      : strangers_max_(strangers_max), clients_max_(clients_max) {}

  /// Enters a new connection, as a stranger that the server waits for. After end_all_soon() it is dropped at once.
  Id enter(std::weak_ptr<TableMember> member, std::string address);

  /// Makes a stranger a client. Returns false if there is no place left for clients; the connection remains a stranger.
  bool admit(Id id);

  /// From now on the server waits for this client: for it to send, or to receive.
  void waits(Id id);

  /// The server works on an answer: this connection is dropped only if the server waits for no other of its address.
  void works(Id id);

  void leave(Id id);

  /// True if more than half of the strangers' places are taken: a stranger's connection should then end with its
  /// answer.
  bool crowded() const;

  /// Drops the stranger that a new one would displace. Returns false if there is none.
  bool drop_stranger();

  /// Lets each connection finish its answer, and drops new connections.
  void end_all_soon();
  void drop_all();

 private:
  struct Entry {
    std::weak_ptr<TableMember> member;
    std::string address;
    std::uint64_t waits_since = 0;  ///< an event counter, or `working`
  };
  static constexpr std::uint64_t working = std::numeric_limits<std::uint64_t>::max();

  /// Removes the stranger to be displaced from the table. The caller holds the mutex, and must release it before
  /// dropping the connection: that may release the connection's last reference, whose destructor calls leave().
  std::weak_ptr<TableMember> take_stranger();
  std::vector<std::shared_ptr<TableMember>> members() const;

  const std::size_t strangers_max_;
  const std::size_t clients_max_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::map<Id, Entry> strangers_;
  std::map<Id, Entry> clients_;
  std::uint64_t next_ = 1;
  bool finishing_ = false;
};

}  // namespace weir::api
