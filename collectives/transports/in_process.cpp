#include "collectives/transports/in_process.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/transports/simulated_wire.hpp"

namespace weir::collectives {
namespace {

class Network;

class Rank final : public Communicator {
 public:
  Rank(Network& network, std::uint32_t rank, std::uint32_t lane);
  ~Rank() override;

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override;
  std::uint32_t host_of(std::uint32_t rank) const override;
  const std::byte* reserved_addresses() const override;
  Loop& loop() override;
  void begin_operation(const Operation& operation) override;
  void end_operation() override { operations_.end(); }
  void begin_part(const Operation& operation, std::span<const std::uint32_t> members) override;
  void end_part(std::span<const std::uint32_t> members) override { operations_.end_part(members); }
  void abort(const Error& cause, const std::optional<Blame>& blame) override {
    fail(cause, blame.value_or(Blame::of_lost(rank_)));
  }
  void when_failed(std::function<void(const Error&, const Blame&)> call) override { when_failed_ = std::move(call); }
  const Error* failure() const override { return failure_ ? &*failure_ : nullptr; }
  Task<> close() override;
  void count(std::uint32_t rank, const Traffic& carried) override {
    add(traffic_[rank].sent_bytes, carried.sent_bytes);
    add(traffic_[rank].received_bytes, carried.received_bytes);
  }
  Traffic traffic_with(std::uint32_t rank) const override { return traffic_[rank].now(); }
  std::optional<std::uint32_t> lost_rank() const override {
    const auto rank = lost_rank_.load();
    return rank < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(rank));
  }
  bool ended_by_another() const override { return ended_by_another_; }

  void begin(Send& send) override;
  void begin(Receive& receive) override;
  void go_on(Send& send) override;
  void go_on(Receive& receive) override;
  void withdraw(Send& send) override;
  void withdraw(Receive& receive) override;

  std::uint32_t lane() const { return lane_; }
  bool failed() const { return failure_.has_value(); }
  void count_sent(std::uint32_t to, std::uint64_t bytes) { add(traffic_[to].sent_bytes, bytes); }

  /// Takes what has arrived over `way`, as far as somebody waits for it.
  void take(Channel& way);
  /// The piece that was worked on is combined.
  void go_on_with(Channel& way);
  /// Another rank tells why it leaves.
  void hear(const Blame& blame);
  /// Nothing is on its way any more. Fails if what this rank waits for will never come.
  void notice_disagreement();

 private:
  Blame disagrees(std::uint32_t rank, const Subject& about) const {
    return {Blame::Fault::disagrees, rank, rank_, about};
  }
  /// `rank` is gone.
  void lose(std::uint32_t rank);
  void fail(const Error& cause, const Blame& blame);
  /// Why nothing can be sent to or received from `other`; null if it can.
  const Error* error_for(std::uint32_t other) const {
    if (failure_) return &*failure_;
    const auto gone = gone_.find(other);
    return gone == gone_.end() ? nullptr : &gone->second;
  }
  void end_transfers(std::uint32_t other, const Error& cause);
  Receive* receive_for(Channel& way);
  bool awaits(const Channel& way) const;
  void deliver(Channel& way);
  Result<void> take_frame(Receive& receive, const SimulatedFrame& frame);

  /// This thread alone writes the count, others may read it.
  static void add(std::atomic<std::uint64_t>& count, std::uint64_t bytes) {
    count.store(count.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

  using UnclaimedHook = boost::intrusive::list_base_hook<boost::intrusive::tag<Unclaimed>,
                                                         boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  Network& network_;
  const std::uint32_t rank_;
  const std::uint32_t lane_;
  WaitingList<Receive> from_any_;
  /// Over which something has arrived that nobody waits for, in that order.
  boost::intrusive::list<Channel, boost::intrusive::base_hook<UnclaimedHook>,
                         boost::intrusive::constant_time_size<false>>
      unclaimed_;
  std::map<std::uint32_t, Error> gone_;  ///< by rank: with Loss::ends_its_links
  std::optional<Error> failure_;
  OperationLog operations_;
  std::function<void(const Error&, const Blame&)> when_failed_;
  bool closed_ = false;
  std::atomic<std::int64_t> lost_rank_ = -1;
  std::atomic<bool> ended_by_another_ = false;
  std::vector<TrafficCounter> traffic_;  ///< by rank
};

/// Addresses without memory behind them.
class ReservedAddresses {
 public:
  explicit ReservedAddresses(bool wanted) {
    if (!wanted) return;
    begin_ = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ensure(begin_ != MAP_FAILED, "addresses can be reserved");
  }
  ~ReservedAddresses() {
    if (begin_ != nullptr) ::munmap(begin_, bytes);
  }
  ReservedAddresses(const ReservedAddresses&) = delete;
  ReservedAddresses& operator=(const ReservedAddresses&) = delete;

  /// Null if none were wanted.
  const std::byte* begin() const { return static_cast<const std::byte*>(begin_); }

 private:
  static constexpr std::size_t bytes = std::size_t{1} << 36;  ///< no message is longer
  void* begin_ = nullptr;
};

class Network final : public InProcessNetwork, public SimulatedWire {
 public:
  Network(std::uint32_t ranks, std::uint32_t lanes, const NetworkModel& model, Loss loss_means)
      : SimulatedWire(model, ranks, lanes),
        loss(loss_means),
        reserved_addresses(!model.carries_data),
        members_(std::size_t{ranks} * lanes) {}

  std::unique_ptr<Communicator> communicator(std::uint32_t rank, std::uint32_t lane) override {
    ensure(rank < ranks && lane < lanes && member(rank, lane) == nullptr, "a rank's end of a lane exists once");
    auto made = std::make_unique<Rank>(*this, rank, lane);
    member(rank, lane) = made.get();
    return made;
  }

  double now() const override { return SimulatedWire::now(); }

  Task<> until(double time) override {
    Alarm alarm(*this, time);
    co_return co_await alarm;
  }
  Task<> compute(std::uint32_t rank, double seconds) override { return until(occupy(rank, seconds)); }

  /// Ranks may have begun to disagree.
  void check_again() { checked_ = false; }

  Rank*& member(std::uint32_t rank, std::uint32_t lane) { return members_[std::size_t{lane} * ranks + rank]; }

  /// Has `call` run once all that is sent now has had the time to arrive, if nothing keeps it.
  void later(double time, std::function<void()> call) {
    later_.push_back({*this, {}, std::move(call)});
    later_.back().place = std::prev(later_.end());
    at(
        time, [](SimulatedWire&, void* what) { static_cast<Later*>(what)->run(); }, &later_.back());
  }

  const Loss loss;
  const ReservedAddresses reserved_addresses;

 protected:
  bool advance(bool may_wait) override {
    if (!held() && next_event()) {
      checked_ = false;
      return true;
    }
    if (!held() && !checked_) {
      checked_ = true;
      for (Rank* waiting : members_) {
        if (waiting != nullptr) waiting->notice_disagreement();
      }
      return true;
    }
    if (!may_wait) return false;
    std::unique_lock lock(mutex_);
    woken_changed_.wait(lock, [this] { return woken_; });
    woken_ = false;
    return true;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    woken_changed_.notify_all();
  }

  void arrived(Channel& way) override {
    if (Rank* receiver = member(way.to, way.lane)) receiver->take(way);
  }
  void handed_over(Send& send) override { end(send, {}); }
  void count_sent(const Channel& way, std::uint64_t bytes) override {
    member(way.from, way.lane)->count_sent(way.to, bytes);
  }

 private:
  /// Waits for a time of the network's clock.
  class Alarm final : public Waiting {
   public:
    Alarm(Network& network, double time) : network_(network), number_(++network.alarms_made_) {
      network.alarms_[number_] = this;
      const auto ring = [&network, number = number_] {
        const auto alarm = network.alarms_.find(number);
        if (alarm != network.alarms_.end()) network.end(*alarm->second, {});
      };
      network.later(time, ring);
    }
    ~Alarm() { network_.alarms_.erase(number_); }

   private:
    Network& network_;
    const std::uint64_t number_;
  };

  /// A call that waits for its time.
  struct Later {
    Network& network;
    std::list<Later>::iterator place;
    std::function<void()> call;

    void run() {
      const auto now = std::move(call);
      network.later_.erase(place);
      now();
    }
  };

  std::vector<Rank*> members_;
  bool checked_ = false;  ///< whether ranks agree, since the last event
  std::list<Later> later_;
  std::unordered_map<std::uint64_t, Alarm*> alarms_;
  std::uint64_t alarms_made_ = 0;

  std::mutex mutex_;
  std::condition_variable woken_changed_;
  bool woken_ = false;
};

Rank::Rank(Network& network, std::uint32_t rank, std::uint32_t lane)
    : network_(network), rank_(rank), lane_(lane), traffic_(network.ranks) {}

Rank::~Rank() {
  if (!closed_) fail({Errc::cancelled, "destroyed"}, Blame::of_lost(rank_));
  network_.member(rank_, lane_) = nullptr;
}

std::uint32_t Rank::size() const { return network_.ranks; }
std::uint32_t Rank::host_of(std::uint32_t rank) const {
  const NetworkModel& model = network_.model;
  return model.hosts_in_turn > 0 ? rank % model.hosts_in_turn : rank / model.ranks_per_host;
}
const std::byte* Rank::reserved_addresses() const { return network_.reserved_addresses.begin(); }
Loop& Rank::loop() { return network_; }

Task<> Rank::close() {
  if (failure_ || closed_) co_return Result<void>();
  closed_ = true;
  for (std::uint32_t to = 0; to < size(); ++to) {
    if (to != rank_) network_.say_goodbye(network_.channel(rank_, to, lane_));
  }
  co_return Result<void>();
}

void Rank::begin_operation(const Operation& operation) {
  operations_.begin(operation);
  network_.check_again();
}

void Rank::begin_part(const Operation& operation, std::span<const std::uint32_t> members) {
  operations_.begin_part(operation, members);
  network_.check_again();
}

void Rank::begin(Send& send) {
  ensure(send.to < size() && send.to != rank_, "a message to a rank outside the group");
  const Channel* back = network_.find(send.to, rank_, lane_);
  if (back != nullptr && back->left) lose(send.to);
  if (const Error* error = error_for(send.to)) return network_.end(send, *error);
  send.operation = operations_.tag(send.to);
  Channel& way = network_.channel(rank_, send.to, lane_);
  way.sends.push_back(send);
  network_.offer(way);
}

void Rank::go_on(Send& send) { network_.offer(network_.channel(rank_, send.to, lane_)); }

void Rank::begin(Receive& receive) {
  if (!receive.rank) {
    if (failure_) return network_.end(receive, *failure_);
    from_any_.push_back(receive);
    while (!unclaimed_.empty() && !receive.begun && !failure_) take(unclaimed_.front());
    return;
  }
  const std::uint32_t from = *receive.rank;
  ensure(from < size() && from != rank_, "a message from a rank outside the group");
  if (const Error* error = error_for(from)) return network_.end(receive, *error);
  Channel& way = network_.channel(from, rank_, lane_);
  way.receives.push_back(receive);
  take(way);
}

void Rank::go_on(Receive& receive) {
  if (receive.begun) take(network_.channel(*receive.rank, rank_, lane_));
}

void Rank::withdraw(Send& send) {
  if (send.begun) {
    fail({Errc::cancelled, "a message was given up half-way"}, Blame::of_giving_up(rank_, send.subject));
  }
}

void Rank::withdraw(Receive& receive) {
  if (receive.begun) {
    fail({Errc::cancelled, "a message was given up half-way"}, Blame::of_giving_up(rank_, receive.subject));
  }
}

/// Whoever waits for the message of which the first frame that has arrived is a piece; null if nobody does.
Receive* Rank::receive_for(Channel& way) {
  if (way.current != nullptr) return way.current;
  WaitingList<Receive>& waiting = way.receives.empty() ? from_any_ : way.receives;
  if (waiting.empty()) return nullptr;
  Receive& receive = waiting.front();
  receive.begun = true;
  receive.rank = way.from;
  if (!receive.subject) receive.subject = way.arrived.front().subject;
  receive.unlink();
  return way.current = &receive;
}

void Rank::take(Channel& way) {
  UnclaimedHook& unclaimed = way;
  if (unclaimed.is_linked()) unclaimed.unlink();
  if (gone_.contains(way.from)) {  // the rest of a message that has ended
    while (!way.arrived.empty() && !way.working) network_.give_back(network_.take_first(way));
    return;
  }
  while (!way.arrived.empty() && !way.working && !failure_) {
    const SimulatedFrame& frame = way.arrived.front();
    Receive* receive = receive_for(way);
    if (receive == nullptr) return unclaimed_.push_back(way);
    if (receive->admitted_bytes < frame.offset + frame.bytes) return;
    const double work = network_.seconds_to_take(frame, receive->receiver.computes());
    if (work > 0) {
      way.working = true;
      const auto combined = [](SimulatedWire& wire, void* what) {
        auto& network = static_cast<Network&>(wire);
        Channel& worked_on = *static_cast<Channel*>(what);
        worked_on.working = false;
        if (Rank* self = network.member(worked_on.to, worked_on.lane)) self->go_on_with(worked_on);
      };
      return network_.at(network_.occupy(rank_, work), combined, &way);
    }
    deliver(way);
  }
  if (way.arrived.empty() && way.left && !failure_ && awaits(way)) lose(way.from);
}

/// Whether something is under way to or from the sender.
bool Rank::awaits(const Channel& way) const {
  const Channel* out = network_.find(rank_, way.from, lane_);
  return way.current != nullptr || !way.receives.empty() || (out != nullptr && !out->sends.empty());
}

void Rank::go_on_with(Channel& way) {
  if (failure_ || way.current == nullptr) return;
  deliver(way);
  take(way);
}

/// Passes the first frame that has arrived to the receive that waits for it.
void Rank::deliver(Channel& way) {
  Receive& receive = *way.current;
  SimulatedFrame& frame = network_.take_first(way);
  add(traffic_[way.from].received_bytes, frame.wire_bytes());
  const auto taken = take_frame(receive, frame);
  const bool last = frame.last();
  network_.give_back(frame);
  if (way.current != &receive) return;  // the receiver has aborted the group
  if (!taken) {
    return fail(taken.error().within("rank " + std::to_string(way.from)), disagrees(way.from, *receive.subject));
  }
  if (!last) return;
  way.current = nullptr;
  network_.end(receive, {});
}

Result<void> Rank::take_frame(Receive& receive, const SimulatedFrame& frame) {
  if (frame.offset == 0) {
    if (frame.subject != *receive.subject) {
      return Error{Errc::malformed,
                   "a message about " + to_string(frame.subject) + " where " + to_string(*receive.subject) + " is due"};
    }
    if (auto expected = operations_.expect(frame.channel->from, frame.operation); !expected) return expected;
    if (auto begun = receive.receiver.begin(frame.message_bytes); !begun) {
      return begun.error().within(to_string(frame.subject));
    }
  }
  if (frame.bytes == 0) return {};
  if (network_.model.carries_data) {
    const std::span<std::byte> place = receive.receiver.place(frame.offset, frame.bytes);
    if (!place.empty()) std::memcpy(place.data(), frame.data.data(), frame.bytes);
    receive.receiver.arrived(frame.offset, place.empty() ? BytesView(frame.data) : place);
  }
  receive.receiver.progressed(frame.offset + frame.bytes, std::nullopt);
  return {};
}

void Rank::lose(std::uint32_t rank) {
  if (failure_ || closed_ || gone_.contains(rank)) return;
  const Error error{Errc::peer_lost, "rank " + std::to_string(rank) + " is gone"};
  if (network_.loss == Loss::ends_the_group) return fail(error, Blame::of_lost(rank));
  gone_.emplace(rank, error);
  end_transfers(rank, error);
}

void Rank::hear(const Blame& blame) {
  if (blame.fault == Blame::Fault::lost) return lose(blame.rank);
  if (closed_ || failure_) return;
  ended_by_another_ = true;
  fail(told_of(blame), blame);
}

void Rank::notice_disagreement() {
  for (std::uint32_t other = 0; other < size() && !failure_ && !closed_; ++other) {
    const Channel* in = network_.find(other, rank_, lane_);
    const Rank* sender = network_.member(other, lane_);
    if (in == nullptr || sender == nullptr) continue;
    const bool waits = in->current != nullptr || !in->receives.empty();
    Result<void> fits;
    if (!in->arrived.empty() && !waits) fits = operations_.expect_later(other, in->arrived.front().operation);
    if (in->arrived.empty() && waits) fits = operations_.compare(other, sender->operations_.last(rank_), true);
    if (!fits) fail(fits.error().within("rank " + std::to_string(other)), disagrees(other, operations_.about(other)));
  }
}

/// Makes `cause` final, and tells the others whom to blame.
void Rank::fail(const Error& cause, const Blame& blame) {
  if (failure_) return;
  failure_ = cause;
  if (blame.fault == Blame::Fault::lost && blame.rank != rank_) lost_rank_ = blame.rank;
  for (std::uint32_t other = 0; other < size(); ++other) end_transfers(other, cause);
  while (!from_any_.empty()) network_.end(from_any_.front(), cause);
  if (!closed_) {
    const auto tell = [&network = network_, blame, from = rank_, lane = lane_] {
      for (std::uint32_t other = 0; other < network.ranks; ++other) {
        Rank* member = network.member(other, lane);
        const bool is_lost = other == blame.rank && blame.fault == Blame::Fault::lost;
        if (member != nullptr && other != from && !is_lost) member->hear(blame);
      }
    };
    network_.later(network_.now() + network_.model.latency_seconds, tell);
  }
  if (when_failed_) when_failed_(cause, blame);
}

/// Ends what is under way to and from `other`.
void Rank::end_transfers(std::uint32_t other, const Error& cause) {
  if (Channel* out = network_.find(rank_, other, lane_)) {
    while (!out->sends.empty()) network_.end(out->sends.front(), cause);
  }
  if (Channel* in = network_.find(other, rank_, lane_)) {
    if (in->current != nullptr) network_.end(*std::exchange(in->current, nullptr), cause);
    while (!in->receives.empty()) network_.end(in->receives.front(), cause);
  }
}

}  // namespace

std::unique_ptr<InProcessNetwork> InProcessNetwork::make(std::uint32_t ranks, std::uint32_t lanes,
                                                         const NetworkModel& model, Loss loss) {
  ensure(ranks > 0 && lanes > 0, "a group has at least one rank and one lane");
  return std::make_unique<Network>(ranks, lanes, model, loss);
}

std::vector<std::unique_ptr<Fabric>> in_process_group(std::uint32_t ranks, std::uint32_t lanes,
                                                      const NetworkModel& model) {
  auto owned = InProcessNetwork::make(ranks, lanes, model);
  InProcessNetwork& network = *owned;
  const auto thread = std::make_shared<LoopThread>(std::move(owned));
  std::vector<std::unique_ptr<Fabric>> fabrics;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::unique_ptr<Communicator>> communicators;
    thread->call([&] {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) communicators.push_back(network.communicator(rank, lane));
    });
    fabrics.push_back(std::make_unique<Fabric>(thread, std::move(communicators)));
  }
  return fabrics;
}

}  // namespace weir::collectives
