#include "collectives/in_process.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::collectives {
namespace {

/// A sender waits while this many of its messages to one rank have not been received, as it would for a full socket.
constexpr std::size_t messages_max = 8;

struct Member {
  bool left = false;  ///< closed in good order
  bool lost = false;  ///< destroyed without having been closed, or failed
  std::optional<Error> failure;
  std::optional<std::uint32_t> lost_rank;
  Traffic traffic;
};

/// The state that the ranks share. The mutex guards all of it, and every change wakes all waiting ranks.
struct Exchange {
  explicit Exchange(std::uint32_t size) : size(size), members(size), queues(std::size_t{size} * size) {}

  std::deque<Bytes>& queue(std::uint32_t from, std::uint32_t to) { return queues[std::size_t{from} * size + to]; }

  const std::uint32_t size;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member> members;
  std::vector<std::deque<Bytes>> queues;
};

class InProcess final : public Communicator {
 public:
  InProcess(std::shared_ptr<Exchange> shared, std::uint32_t rank) : shared_(std::move(shared)), rank_(rank) {}

  ~InProcess() override {
    std::lock_guard lock(shared_->mutex);
    if (!self().left) self().lost = true;
    shared_->changed.notify_all();
  }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return shared_->size; }

  Result<void> exchange(std::uint32_t to, BytesView message, std::uint32_t from, Receiver& receiver) override {
    ensure(to < size() && from < size() && to != rank_ && from != rank_, "exchange with a rank outside the group");
    std::unique_lock lock(shared_->mutex);
    bool sent = false;
    std::optional<Bytes> incoming;
    while (true) {
      if (self().failure) return *self().failure;
      if (std::deque<Bytes>& out = shared_->queue(rank_, to); !sent && out.size() < messages_max) {
        out.emplace_back(message.begin(), message.end());
        self().traffic.sent_bytes += wire_bytes(message.size());
        sent = true;
        shared_->changed.notify_all();
      }
      if (std::deque<Bytes>& in = shared_->queue(from, rank_); !incoming && !in.empty()) {
        incoming = std::move(in.front());
        in.pop_front();
        self().traffic.received_bytes += wire_bytes(incoming->size());
        shared_->changed.notify_all();
      }
      if (sent && incoming) break;
      if (auto gone = missing_rank(sent ? rank_ : to, incoming ? rank_ : from)) return fail_for(*gone);
      shared_->changed.wait(lock);
    }
    lock.unlock();  // the receiver may take long
    if (auto taken = deliver(*incoming, receiver); !taken) return fail(taken.error());
    return {};
  }

  void abort(Error cause) override { fail(std::move(cause)); }

  void close() override {
    std::lock_guard lock(shared_->mutex);
    if (!self().failure) self().left = true;
    shared_->changed.notify_all();
  }

  Traffic traffic() const override {
    std::lock_guard lock(shared_->mutex);
    return self().traffic;
  }

  std::optional<std::uint32_t> lost_rank() const override {
    std::lock_guard lock(shared_->mutex);
    return self().lost_rank;
  }

 private:
  Member& self() const { return shared_->members[rank_]; }

  /// A rank that is gone and without which waiting for `to` and `from` cannot succeed. A half of the exchange that is
  /// done is passed as this rank itself.
  std::optional<std::uint32_t> missing_rank(std::uint32_t to, std::uint32_t from) const {
    for (std::uint32_t r = 0; r < shared_->size; ++r) {
      const Member& member = shared_->members[r];
      if (member.lost || (member.left && r != rank_ && (r == to || r == from))) return member.lost_rank.value_or(r);
    }
    return std::nullopt;
  }

  static Result<void> deliver(BytesView message, Receiver& receiver) {
    if (auto begun = receiver.begin(message.size()); !begun) return begun;
    for (std::size_t offset = 0; offset < message.size(); offset += piece_bytes_max) {
      const BytesView piece = message.subspan(offset, std::min(piece_bytes_max, message.size() - offset));
      const std::span<std::byte> place = receiver.place(offset, piece.size());
      std::memcpy(place.data(), piece.data(), piece.size());
      receiver.arrived(offset, place);
    }
    return {};
  }

  /// To be called with the lock held.
  Error fail_for(std::uint32_t lost) {
    self().lost = true;
    self().lost_rank = lost;
    self().failure = Error{Errc::peer_lost, "rank " + std::to_string(lost) + " is gone"};
    shared_->changed.notify_all();
    return *self().failure;
  }

  Error fail(Error cause) {
    std::lock_guard lock(shared_->mutex);
    self().lost = true;
    if (!self().failure) self().failure = std::move(cause);
    shared_->changed.notify_all();
    return *self().failure;
  }

  std::shared_ptr<Exchange> shared_;
  const std::uint32_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> in_process_group(std::uint32_t size) {
  ensure(size > 0, "a group has at least one rank");
  auto shared = std::make_shared<Exchange>(size);
  std::vector<std::unique_ptr<Communicator>> group;
  for (std::uint32_t rank = 0; rank < size; ++rank) group.push_back(std::make_unique<InProcess>(shared, rank));
  return group;
}

}  // namespace weir::collectives
