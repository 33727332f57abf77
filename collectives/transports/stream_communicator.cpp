#include "collectives/transports/stream_communicator.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/transports/link.hpp"

namespace weir::collectives {
namespace {

/// After so long without a piece of a message from anybody, ranks tell each other what they wait for.
constexpr std::chrono::seconds patience{1};

/// When a rank that leaves has last seen another one go on, in any of its lanes: they wait for the same time, since the
/// others may be done with one lane before they turn to the next.
using LastSign = std::shared_ptr<std::chrono::steady_clock::time_point>;

class StreamCommunicator final : public Communicator, public LinkOwner {
 public:
  StreamCommunicator(EpollLoop& event_loop, const Member& member, std::uint32_t lane,
                     std::vector<std::unique_ptr<Stream>> streams, LastSign last_sign)
      : LinkOwner(event_loop, member.rank, member.attempt),
        rank_(member.rank),
        loss_(member.loss),
        hosts_(member.hosts),
        linger_(member.linger),
        last_sign_(std::move(last_sign)),
        gone_(streams.size()) {
    for (std::uint32_t r = 0; r < streams.size(); ++r) {
      links_.push_back(streams[r] ? std::make_unique<Link>(*this, r, lane, std::move(streams[r])) : nullptr);
    }
    ensure(rank_ < links_.size() && !links_[rank_], "a rank has no connection to itself");
    watching_.start();
  }

  ~StreamCommunicator() override {
    if (!failure_ && !closed_) fail({Errc::cancelled, "destroyed"}, Blame::of_lost(rank_));
  }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(links_.size()); }
  Loop& loop() override { return epoll; }
  std::uint32_t host_of(std::uint32_t rank) const override { return hosts_.empty() ? rank : hosts_[rank]; }

  void begin_operation(const Operation& operation) override { operations.begin(operation); }
  void end_operation() override { operations.end(); }
  void begin_part(const Operation& operation, std::span<const std::uint32_t> members) override {
    operations.begin_part(operation, members);
  }
  void end_part(std::span<const std::uint32_t> members) override { operations.end_part(members); }
  void abort(const Error& cause, const std::optional<Blame>& blame) override {
    fail(cause, blame.value_or(Blame::of_lost(rank_)));
  }
  void when_failed(std::function<void(const Error&, const Blame&)> call) override { when_failed_ = std::move(call); }

  const Error* failure() const override { return failure_ ? &*failure_ : nullptr; }

  Task<> close() override {
    if (closed_) co_return Result<void>();
    closed_ = true;
    for (const auto& link : links_) {
      if (link && !failure_) link->say_goodbye();
    }
    // The others are at most one operation behind, but on a slow line that may take long. Until they have left too,
    // closing a connection could discard what they have not read: what they say meanwhile would be refused, and with it
    // goes all that was sent to them.
    *last_sign_ = std::chrono::steady_clock::now();
    while (!others_left()) {
      const auto now = std::chrono::steady_clock::now();
      if (others_go_on()) *last_sign_ = now;
      const auto ends_at = *last_sign_ + linger_;
      if (now >= ends_at) break;
      EpollLoop::Timer looks(epoll, std::min(ends_at, now + patience));
      closing_ = &looks;
      co_await looks;
      closing_ = nullptr;
    }
    co_return Result<void>();
  }

  void count(std::uint32_t rank, const Traffic& carried) override { links_[rank]->count(carried); }
  Traffic traffic_with(std::uint32_t rank) const override { return links_[rank] ? links_[rank]->traffic() : Traffic(); }
  std::optional<std::uint32_t> lost_rank() const override {
    const std::int64_t rank = lost_rank_.load();
    return rank < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(rank));
  }

  bool ended_by_another() const override { return ended_by_another_; }

  void begin(Send& send) override {
    ensure(send.to < size() && send.to != rank_, "a message to a rank outside the group");
    if (const Error* error = error_for(send.to)) return epoll.end(send, *error);
    send.operation = operations.tag(send.to);
    links_[send.to]->begin(send);
    if (links_[send.to]->ended()) link_failed(send.to, {Errc::peer_lost, "left the group"});
  }

  void begin(Receive& receive) override {
    if (!receive.rank) {
      if (failure_) return epoll.end(receive, *failure_);
      from_any_.push_back(receive);
      for (Link* link : unclaimed_) link->claim();
      unclaimed_.clear();
      return;
    }
    ensure(*receive.rank < size() && *receive.rank != rank_, "a message from a rank outside the group");
    if (const Error* error = error_for(*receive.rank)) return epoll.end(receive, *error);
    links_[*receive.rank]->begin(receive);
  }

  void go_on(Send& send) override { links_[send.to]->go_on(); }
  void go_on(Receive& receive) override {
    if (receive.rank) links_[*receive.rank]->go_on();
  }
  void withdraw(Send& send) override {
    if (send.begun) {
      fail({Errc::cancelled, "a message was given up half-way"}, Blame::of_giving_up(rank_, send.subject));
    }
  }
  void withdraw(Receive& receive) override {
    if (receive.begun) {
      fail({Errc::cancelled, "a message was given up half-way"}, Blame::of_giving_up(rank_, receive.subject));
    }
  }

 private:
  Receive* receive_from_any() override { return from_any_.empty() ? nullptr : &from_any_.front(); }
  void note_unclaimed(Link& link) override { unclaimed_.push_back(&link); }

  void link_failed(std::uint32_t peer, const Error& error) override {
    if (closed_) return link_ended(peer);
    if (error.code != Errc::peer_lost) {
      const Subject about = links_[peer]->due().value_or(operations.about(peer));
      return fail(error.within("rank " + std::to_string(peer)), {Blame::Fault::disagrees, peer, rank_, about});
    }
    // The peer's last frame may name the rank whose loss made it leave.
    links_[peer]->read_to_end();
    const Blame blame = links_[peer]->ending().blame.value_or(Blame::of_lost(peer));
    if (blame.fault != Blame::Fault::lost) {
      if (!failure_) ended_by_another_ = true;
      return fail(told_of(blame), blame);
    }
    const Error cause = blame.rank == peer ? error.within("rank " + std::to_string(peer))
                                           : Error{Errc::peer_lost, "rank " + std::to_string(blame.rank) +
                                                                        " is gone, says rank " + std::to_string(peer)};
    if (loss_ == Loss::ends_the_group) return fail(cause, blame);
    gone_[peer] = cause;
    links_[peer]->give_up(Blame::of_lost(peer));
    links_[peer]->end_transfers(cause);
  }

  void link_ended(std::uint32_t) override { note_others(); }

  /// Whether nobody else is there any more or, after a failure, all have been told.
  bool others_left() const {
    const auto done = [&](const auto& link) { return !link || (failure_ ? !link->has_last_words() : link->ended()); };
    return std::ranges::all_of(links_, done);
  }
  /// Whether one of those that have not left needs this rank, and has done something since this was asked last.
  bool others_go_on() {
    bool any = false;
    for (const auto& link : links_) {
      if (link && !failure_ && !link->ended()) any |= link->peer_goes_on();
    }
    return any;
  }
  void note_others() {
    if (closing_ != nullptr && !closing_->ended() && others_left()) epoll.end(*closing_, {});
  }

  /// Makes `cause` final and tells the other ranks whom to blame, so that they do not blame this one.
  void fail(const Error& cause, const Blame& blame) {
    if (failure_) return;
    failure_ = cause;
    failed_at_ = std::chrono::steady_clock::now();
    if (blame.fault == Blame::Fault::lost && blame.rank != rank_) lost_rank_ = blame.rank;
    for (const auto& link : links_) {
      if (!link) continue;
      link->give_up(blame);
      link->end_transfers(cause);
    }
    while (!from_any_.empty()) epoll.end(from_any_.front(), cause);
    note_others();
    if (when_failed_) when_failed_(cause, blame);
  }

  /// Looks around whenever nothing has arrived for a while, for as long as the communicator exists.
  Task<> watch() {
    while (true) {
      EpollLoop::Timer patience_ends(epoll, std::chrono::steady_clock::now() + patience);
      if (auto waited = co_await patience_ends; !waited) co_return waited.error();
      if (closed_) co_return Result<void>();
      if (failure_) {
        if (std::chrono::steady_clock::now() - failed_at_ < linger_) continue;
        for (const auto& link : links_) {
          if (link) link->cut_off();
        }
        co_return Result<void>();
      }
      std::uint64_t received = 0;
      for (const auto& link : links_) received += link ? link->frames_received() : 0;
      if (std::exchange(frames_received_, received) != received) continue;
      for (const auto& link : links_) {
        if (link) link->look_around();
      }
    }
  }

  /// Why nothing can be sent to or received from `other`; null if it can.
  const Error* error_for(std::uint32_t other) const {
    return failure_ ? &*failure_ : gone_[other] ? &*gone_[other] : nullptr;
  }

  const std::uint32_t rank_;
  const Loss loss_;
  const std::vector<std::uint32_t> hosts_;
  const std::chrono::milliseconds linger_;
  const LastSign last_sign_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::optional<Error>> gone_;  ///< by rank: with Loss::ends_its_links
  WaitingList<Receive> from_any_;
  std::vector<Link*> unclaimed_;  ///< over which a message may be there that nobody waits for
  std::optional<Error> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  std::function<void(const Error&, const Blame&)> when_failed_;
  bool closed_ = false;
  EpollLoop::Timer* closing_ = nullptr;  ///< for which close() waits
  std::atomic<std::int64_t> lost_rank_ = -1;
  std::atomic<bool> ended_by_another_ = false;
  std::uint64_t frames_received_ = 0;  ///< when watch() looked last
  Task<> watching_ = watch();
};

}  // namespace

std::unique_ptr<Communicator> stream_communicator(EpollLoop& loop, const Member& member, std::uint32_t lane,
                                                  std::vector<std::unique_ptr<Stream>> streams) {
  return std::make_unique<StreamCommunicator>(loop, member, lane, std::move(streams),
                                              std::make_shared<LastSign::element_type>());
}

std::unique_ptr<Fabric> stream_fabric(const Member& member, std::vector<std::vector<std::unique_ptr<Stream>>> lanes) {
  auto owned = std::make_unique<EpollLoop>();
  EpollLoop& loop = *owned;
  const LastSign last_sign = std::make_shared<LastSign::element_type>();
  auto thread = std::make_shared<LoopThread>(std::move(owned));
  std::vector<std::unique_ptr<Communicator>> communicators;
  thread->call([&] {
    for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
      communicators.push_back(
          std::make_unique<StreamCommunicator>(loop, member, lane, std::move(lanes[lane]), last_sign));
    }
  });
  return std::make_unique<Fabric>(std::move(thread), std::move(communicators));
}

}  // namespace weir::collectives
