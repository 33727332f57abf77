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

/// What the table asks of a connection. From any thread; neither waits.
class TableMember {
 public:
  virtual ~TableMember() = default;
  /// Closes the connection now, whatever it is doing.
  virtual void drop() = 0;
  /// Ends the connection after the answer that is under way; a stream ends where it is.
  virtual void end_soon() = 0;
};

/// Every open connection, and the places there are for them.
///
/// A connection is a stranger's until a request on it has proven to know the token; then it is a client's. Strangers
/// and clients have places of their own, so that no number of strangers keeps a client out. A new connection is always
/// let in: if the strangers' places are all taken, one stranger is dropped for it, namely, of the address that has the
/// most, the one that the server has waited for longest. Whoever only holds connections open thus loses them first,
/// and an address that opens many displaces itself.
/// Owned by the Services; any thread.
class ConnectionTable {
 public:
  using Id = std::uint64_t;

  ConnectionTable(std::size_t strangers_max, std::size_t clients_max)
      : strangers_max_(strangers_max), clients_max_(clients_max) {}

  /// Enters a new connection, a stranger that the server waits for. In a table that finishes it is dropped at once.
  Id enter(std::weak_ptr<TableMember> member, std::string address);

  /// Makes a stranger a client. False if clients have no place left; the connection stays a stranger's.
  bool admit(Id id);

  /// From now on the server waits for this connection: to send, or to take what it is sent.
  void waits(Id id);

  /// The server works on an answer: this connection is not dropped while there is one that is waited for.
  void works(Id id);

  void leave(Id id);

  /// More than half of the strangers' places are taken: a stranger's connection should not outlive its answer.
  bool crowded() const;

  /// Drops the stranger that a new one would displace. False if there is none.
  bool drop_stranger();

  /// Lets each connection finish its answer, and no new one begin.
  void end_all_soon();
  void drop_all();

 private:
  struct Entry {
    std::weak_ptr<TableMember> member;
    std::string address;
    std::uint64_t waits_since = 0;  ///< a number that grows from event to event
  };
  static constexpr std::uint64_t working = std::numeric_limits<std::uint64_t>::max();

  /// Takes the stranger that is to go out of the table. The caller holds the mutex, and drops it without: the last one
  /// to let go of a connection may be the one who drops it.
  std::weak_ptr<TableMember> take_stranger();
  std::vector<std::shared_ptr<TableMember>> members() const;

  const std::size_t strangers_max_;
  const std::size_t clients_max_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::map<Id, Entry> strangers_;
  std::map<Id, Entry> clients_;
  std::uint64_t next_ = 1;
  bool finishing_ = false;
};

}  // namespace weir::api
