#include "collectives/tcp_communicator.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/tcp_link.hpp"

namespace weir::collectives {
namespace {

using Clock = std::chrono::steady_clock;

/// How long `close` waits for the others: they are at most one message behind, unless something is wrong with
/// them.
constexpr std::chrono::seconds linger{5};

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(std::uint32_t rank, std::uint64_t attempt, std::vector<Descriptor> sockets)
      : rank_(rank), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    ensure(static_cast<bool>(wake_), "no event descriptor");
    for (Descriptor& socket : sockets) {
      links_.push_back(socket ? std::make_unique<TcpLink>(std::move(socket), attempt, traffic_) : nullptr);
    }
    ensure(rank_ < links_.size() && !links_[rank_], "a rank has no connection to itself");
  }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(links_.size()); }

  Result<void> exchange(std::uint32_t to, BytesView message, std::uint32_t from, Receiver& receiver) override {
    ensure(to < size() && from < size() && to != rank_ && from != rank_, "exchange with a rank outside the group");
    if (auto failed = failure()) return fail(rank_, *failed);
    TcpLink& out = *links_[to];
    TcpLink& in = *links_[from];
    out.begin_send(message);
    in.begin_receive(receiver);
    while (out.sending() || in.receiving()) {
      bool moved = false;
      if (out.sending()) {
        auto sent = out.send_some();
        if (!sent) return fail(to, sent.error());
        moved |= *sent;
      }
      if (in.receiving()) {
        auto received = in.receive_some();
        if (!received) return fail(from, received.error());
        moved |= *received;
      }
      if (!moved) {
        if (auto waited = wait(to, from); !waited) return waited;
      }
    }
    return {};
  }

  void abort(Error cause) override {
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(cause);
    }
    wake();
  }

  void close() override {
    std::vector<bool> said(links_.size());
    const auto deadline = Clock::now() + linger;
    while (!failure()) {
      // A full socket accepts the goodbye when the peer has read more. Until the peers have left too, closing could
      // discard what they have not read.
      polls_.assign(1, {*wake_, POLLIN, 0});
      bool waiting = false;
      for (std::uint32_t r = 0; r < size(); ++r) {
        if (r == rank_) continue;
        if (!said[r]) said[r] = links_[r]->leave(FrameKind::goodbye, 0);
        const bool open = !links_[r]->ended();
        polls_.push_back({open ? links_[r]->descriptor() : -1, static_cast<short>(said[r] ? POLLRDHUP : POLLOUT), 0});
        waiting |= open;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (!waiting || left.count() <= 0) return;
      ::poll(polls_.data(), polls_.size(), static_cast<int>(left.count()));
      std::size_t slot = 1;
      for (std::uint32_t r = 0; r < size(); ++r) {
        if (r == rank_) continue;
        if ((polls_[slot++].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) links_[r]->read_to_end();
      }
    }
  }

  Traffic traffic() const override { return {traffic_.sent_bytes.load(), traffic_.received_bytes.load()}; }

  std::optional<std::uint32_t> lost_rank() const override {
    std::lock_guard lock(mutex_);
    return lost_rank_;
  }

 private:
  /// Waits until the socket to `to` takes bytes or that from `from` has some, whichever is still under way,
  /// and watches every other peer meanwhile: a ring in which one rank is gone would wait for ever.
  Result<void> wait(std::uint32_t to, std::uint32_t from) {
    polls_.assign(1, {*wake_, POLLIN, 0});
    for (std::uint32_t r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      short events = POLLRDHUP;
      if (r == to && links_[r]->sending()) events |= POLLOUT;
      if (r == from && links_[r]->receiving()) events |= POLLIN;
      // A descriptor below zero is skipped: what has ended would be reported again and again.
      polls_.push_back({links_[r]->ended() ? -1 : links_[r]->descriptor(), events, 0});
    }
    if (auto gone = ended_rank(to, from)) return fail(*gone, {Errc::peer_lost, "left the group"});
    if (::poll(polls_.data(), polls_.size(), -1) < 0 && errno != EINTR) {
      return fail(rank_, {Errc::io, "poll failed"});
    }
    if (auto failed = failure()) return fail(rank_, *failed);
    std::size_t slot = 1;
    for (std::uint32_t r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      const short events = polls_[slot++].revents;
      if ((events & (POLLRDHUP | POLLHUP | POLLERR)) == 0) continue;
      if ((events & POLLIN) != 0) continue;  // exchange reads what is left and meets the end there
      links_[r]->read_to_end();
      if (!links_[r]->ending().orderly) return fail(r, {Errc::peer_lost, "closed the connection"});
    }
    return {};
  }

  /// A rank that has left although the exchange under way still needs it.
  std::optional<std::uint32_t> ended_rank(std::uint32_t to, std::uint32_t from) const {
    if (links_[to]->sending() && links_[to]->ended()) return to;
    if (links_[from]->receiving() && links_[from]->ended()) return from;
    return std::nullopt;
  }

  /// Makes the failure final and tells the other ranks which one is to blame, so that they do not blame this
  /// one.
  Error fail(std::uint32_t peer, Error error) {
    std::uint32_t lost = peer;
    if (error.code == Errc::peer_lost && peer != rank_) {
      // The peer's last frame may name the rank whose loss made it leave.
      if (!links_[peer]->ended()) links_[peer]->read_to_end();
      lost = links_[peer]->ending().lost_rank.value_or(peer);
    }
    for (const auto& link : links_) {
      if (link && !link->ended() && !link->leave(FrameKind::failed, lost)) link->hang_up();
    }
    const std::string who = "rank " + std::to_string(lost);
    std::lock_guard lock(mutex_);
    if (!failure_) {
      if (error.code == Errc::peer_lost) lost_rank_ = lost;
      failure_ =
          peer == lost ? error.within(who) : Error{error.code, who + " is gone, says rank " + std::to_string(peer)};
    }
    return *failure_;
  }

  std::optional<Error> failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  void wake() {
    const std::uint64_t one = 1;
    // The counter only ever has to be non-zero, so a refused write (it is full) changes nothing.
    if (::write(*wake_, &one, sizeof one) < 0) return;
  }

  const std::uint32_t rank_;
  TrafficCounter traffic_;
  std::vector<std::unique_ptr<TcpLink>> links_;
  std::vector<pollfd> polls_;
  Descriptor wake_;

  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::optional<std::uint32_t> lost_rank_;
};

}  // namespace

std::unique_ptr<Communicator> tcp_communicator(std::uint32_t rank, std::uint64_t attempt,
                                               std::vector<Descriptor> sockets) {
  return std::make_unique<TcpCommunicator>(rank, attempt, std::move(sockets));
}

}  // namespace weir::collectives
