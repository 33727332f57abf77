#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/fabric.hpp"

namespace weir::training::servers {

/// Messages between one thread and the other ranks, on a lane that carries no operations: what arrives, from whomever,
/// waits here until the thread takes it, and what it sends goes out while it goes on. Owned and used by that thread;
/// the messages travel on the fabric's loop.
///
/// Fails with what the communicator fails with, and with malformed where a rank sends longer or more messages than it
/// may; then all ranks fail.
class Messenger {
 public:
  struct Message {
    std::uint32_t from = 0;
    collectives::Subject about;
    Bytes body;
  };
  /// Messages that a rank sends to another one at most before it is answered.
  static constexpr std::size_t unanswered_max = 4;
  /// What may arrive: the longest message, and which rank may have more than unanswered_max of them wait until they are
  /// taken, and how many more.
  struct Limits {
    std::uint64_t bytes_max = 0;
    std::uint32_t announcer = 0;
    std::size_t announcements_max = 0;
  };

  /// `fabric` must outlive this object.
  Messenger(collectives::Fabric& fabric, Limits limits);
  /// What has not been sent yet stays unsent, and the group fails; see flush().
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// Messages to one rank arrive in the order of these calls. A failure shows in next().
  void send(std::uint32_t to, const collectives::Subject& about, Bytes body);

  /// The next message. Blocks.
  Result<Message> next();

  /// Waits until all that was sent is on its way.
  Result<void> flush();

 private:
  class Inbox;
  class Sending;

  collectives::Task<> receive();
  collectives::Task<> send_out(Sending& sending);
  std::size_t waiting_max(std::uint32_t from) const;
  Result<void> make_room(std::uint32_t from, std::uint64_t bytes);
  void fail(const Error& error);

  collectives::Fabric& fabric_;
  collectives::Communicator& group_;
  const Limits limits_;

  // Of the loop's thread.
  std::vector<collectives::Task<>> receiving_;
  std::deque<std::unique_ptr<Sending>> sending_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> waiting_;
  std::vector<std::size_t> waiting_of_;  ///< by rank: also what is arriving
  std::size_t unsent_ = 0;
  std::optional<Error> failure_;
};

}  // namespace weir::training::servers
