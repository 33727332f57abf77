#include "collectives/transports/in_process.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <unordered_map>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::collectives {
namespace {

class Network;

/// A piece of a message on its way.
struct Frame {
  Subject subject;
  std::uint64_t message_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Bytes data;  ///< empty if the network carries none

  std::uint64_t wire_bytes() const { return bytes + Communicator::frame_header_bytes; }
  bool last() const { return offset + bytes == message_bytes; }
};

/// The way from one rank to another in one lane.
struct Channel {
  WaitingList<Send> sends;
  WaitingList<Receive> receives;  ///< those that name the sender
  Receive* current = nullptr;     ///< takes the message of which a piece has arrived
  std::deque<Frame> on_its_way;
  std::deque<Frame> arrived;
  std::uint64_t window_used = 0;
  double last_arrival = 0;
  bool left = false;     ///< the sender has said goodbye
  bool working = false;  ///< the receiver combines a piece
};

/// Waits for a time of the network's clock.
class Alarm final : public Waiting {};

class Rank final : public Communicator {
 public:
  Rank(Network& network, std::uint32_t rank, std::uint32_t lane);
  ~Rank() override;

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override;
  std::uint32_t host_of(std::uint32_t rank) const override;
  Loop& loop() override;
  void abort(const Error& cause, std::optional<std::uint32_t> lost) override { fail(cause, lost.value_or(rank_)); }
  void when_failed(std::function<void(const Error&)> call) override { when_failed_ = std::move(call); }
  Task<> close() override;
  Traffic traffic_with(std::uint32_t rank) const override { return traffic_[rank].now(); }
  std::optional<std::uint32_t> lost_rank() const override {
    const auto rank = lost_rank_.load();
    return rank < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(rank));
  }

  void begin(Send& send) override;
  void begin(Receive& receive) override;
  void go_on(Send& send) override;
  void go_on(Receive& receive) override;
  void withdraw(Send& send) override;
  void withdraw(Receive& receive) override;

  std::uint32_t lane() const { return lane_; }
  bool failed() const { return failure_.has_value(); }
  bool closed() const { return closed_; }
  void count_sent(std::uint32_t to, std::uint64_t bytes) { traffic_[to].sent_bytes += bytes; }

  /// Takes what has arrived from `from`, as far as somebody waits for it.
  void take(std::uint32_t from);
  /// `rank` is gone.
  void lose(std::uint32_t rank);
  /// `rank` has left in good order.
  void note_goodbye(std::uint32_t rank);

 private:
  void fail(const Error& cause, std::uint32_t lost);
  /// Why nothing can be sent to or received from `other`; null if it can.
  const Error* error_for(std::uint32_t other) const {
    return failure_ ? &*failure_ : gone_[other] ? &*gone_[other] : nullptr;
  }
  void end_transfers(std::uint32_t other, const Error& cause);
  Receive* receive_for(Channel& channel, std::uint32_t from, const Subject& subject);
  void deliver(Channel& channel, std::uint32_t from);
  Result<void> take_frame(Receive& receive, const Frame& frame);

  Network& network_;
  const std::uint32_t rank_;
  const std::uint32_t lane_;
  WaitingList<Receive> from_any_;
  std::vector<std::optional<Error>> gone_;  ///< by rank: with Loss::ends_its_links
  std::optional<Error> failure_;
  std::function<void(const Error&)> when_failed_;
  bool closed_ = false;
  std::atomic<std::int64_t> lost_rank_ = -1;
  std::vector<TrafficCounter> traffic_;  ///< by rank
};

class Network final : public InProcessNetwork {
 public:
  Network(std::uint32_t ranks, std::uint32_t lanes, const NetworkModel& model, Loss loss)
      : model(model),
        loss(loss),
        size(ranks),
        lanes(lanes),
        members_(std::size_t{ranks} * lanes),
        egress_(ranks),
        ingress_free_(ranks),
        processor_free_(ranks),
        random_(model.seed) {}

  std::unique_ptr<Communicator> communicator(std::uint32_t rank, std::uint32_t lane) override {
    ensure(rank < size && lane < lanes && member(rank, lane) == nullptr, "a rank's end of a lane exists once");
    auto made = std::make_unique<Rank>(*this, rank, lane);
    member(rank, lane) = made.get();
    return made;
  }

  double now() const override { return now_; }

  Task<> compute(std::uint32_t rank, double seconds) override {
    Alarm alarm;
    at(occupy(rank, seconds), [this, &alarm] { end(alarm, {}); });
    co_return co_await alarm;
  }

  Rank*& member(std::uint32_t rank, std::uint32_t lane) { return members_[std::size_t{lane} * size + rank]; }

  Channel& channel(std::uint32_t from, std::uint32_t to, std::uint32_t lane) {
    return channels_[(std::uint64_t{lane} * size + from) * size + to];
  }

  /// Has `event` happen at `time`, after all that was asked for earlier at the same time.
  void at(double time, std::function<void()> event) { events_.push({time, ++order_, std::move(event)}); }

  /// The time at which `rank` will have spent `seconds` on computing, after what it has to compute already.
  double occupy(std::uint32_t rank, double seconds) {
    return processor_free_[rank] = std::max(processor_free_[rank], now_) + seconds;
  }

  /// Puts the next frame of rank `from` on the wire, unless one is on it.
  void send_next(std::uint32_t from) {
    Port& port = egress_[from];
    while (!port.busy) {
      const auto next =
          std::ranges::find_if(port.waiting, [&](auto& it) { return sendable(from, it.first, it.second); });
      if (next == port.waiting.end()) {
        port.waiting.clear();
        return;
      }
      const auto [lane, to] = *next;
      // The others of the lane get their turn first.
      port.waiting.erase(next);
      port.waiting.emplace_back(lane, to);
      std::ranges::stable_sort(port.waiting, {}, &std::pair<std::uint32_t, std::uint32_t>::first);
      transmit(from, to, lane);
    }
  }

  /// Something may be sent from `from` to `to`.
  void offer(std::uint32_t from, std::uint32_t to, std::uint32_t lane) {
    Port& port = egress_[from];
    const std::pair entry(lane, to);
    if (std::ranges::find(port.waiting, entry) == port.waiting.end()) {
      port.waiting.insert(
          std::ranges::upper_bound(port.waiting, lane, {}, &std::pair<std::uint32_t, std::uint32_t>::first), entry);
    }
    send_next(from);
  }

  const NetworkModel model;
  const Loss loss;
  const std::uint32_t size;
  const std::uint32_t lanes;

 protected:
  bool advance(bool may_wait) override {
    if (events_.empty()) {
      if (!may_wait) return false;
      std::unique_lock lock(mutex_);
      woken_changed_.wait(lock, [this] { return woken_; });
      woken_ = false;
      return true;
    }
    now_ = std::max(now_, events_.top().time);
    const auto event = std::move(const_cast<Event&>(events_.top()).happen);
    events_.pop();
    event();
    return true;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    woken_changed_.notify_all();
  }

 private:
  struct Event {
    double time;
    std::uint64_t order;
    std::function<void()> happen;

    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;  // the earliest is the greatest
    }
  };

  /// A rank's way out.
  struct Port {
    bool busy = false;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting;  ///< lane and destination, urgent lanes first
  };

  bool sendable(std::uint32_t from, std::uint32_t lane, std::uint32_t to) {
    Channel& way = channel(from, to, lane);
    if (way.sends.empty()) return false;
    const Send& send = way.sends.front();
    const auto bytes = std::min<std::uint64_t>(send.message.size() - send.sent_bytes, Communicator::piece_bytes_max);
    return send.ready_bytes >= send.sent_bytes + bytes && way.window_used < model.window_bytes;
  }

  void transmit(std::uint32_t from, std::uint32_t to, std::uint32_t lane) {
    Channel& way = channel(from, to, lane);
    Send& send = way.sends.front();
    const std::uint64_t rest = send.message.size() - send.sent_bytes;
    Frame frame{.subject = send.subject,
                .message_bytes = send.message.size(),
                .offset = send.sent_bytes,
                .bytes = std::min<std::uint64_t>(rest, Communicator::piece_bytes_max),
                .data = {}};
    if (model.carries_data) append(frame.data, send.message.subspan(frame.offset, frame.bytes));
    send.begun = true;
    send.sent_bytes += frame.bytes;
    member(from, lane)->count_sent(to, frame.wire_bytes());
    way.window_used += frame.wire_bytes();
    const double duration = static_cast<double>(frame.wire_bytes()) / model.bytes_per_second;
    if (frame.last()) {
      end(send, {});
    }
    double arrival = now_ + duration + model.latency_seconds;
    if (model.jitter_seconds > 0) arrival += std::uniform_real_distribution(0.0, model.jitter_seconds)(random_);
    way.last_arrival = std::max(arrival, way.last_arrival);  // one link keeps its order
    way.on_its_way.push_back(std::move(frame));
    at(way.last_arrival, [this, from, to, lane, duration] { reach(from, to, lane, duration); });
    if (duration == 0) return;
    egress_[from].busy = true;
    at(now_ + duration, [this, from] {
      egress_[from].busy = false;
      send_next(from);
    });
  }

  /// A frame has come to the port of `to`, where it may have to wait for frames of other ranks.
  void reach(std::uint32_t from, std::uint32_t to, std::uint32_t lane, double duration) {
    ingress_free_[to] = std::max(now_, ingress_free_[to] + duration);
    const auto arrive = [this, from, to, lane] {
      Channel& way = channel(from, to, lane);
      way.arrived.push_back(std::move(way.on_its_way.front()));
      way.on_its_way.pop_front();
      if (Rank* receiver = member(to, lane)) receiver->take(from);
    };
    if (ingress_free_[to] <= now_) {
      arrive();
    } else {
      at(ingress_free_[to], arrive);
    }
  }

  std::vector<Rank*> members_;
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::vector<Port> egress_;
  std::vector<double> ingress_free_;
  std::vector<double> processor_free_;
  std::mt19937_64 random_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;

  std::mutex mutex_;
  std::condition_variable woken_changed_;
  bool woken_ = false;
};

Rank::Rank(Network& network, std::uint32_t rank, std::uint32_t lane)
    : network_(network), rank_(rank), lane_(lane), gone_(network.size), traffic_(network.size) {}

Rank::~Rank() {
  if (!closed_) fail({Errc::cancelled, "destroyed"}, rank_);
  network_.member(rank_, lane_) = nullptr;
}

std::uint32_t Rank::size() const { return network_.size; }
std::uint32_t Rank::host_of(std::uint32_t rank) const { return rank / network_.model.ranks_per_host; }
Loop& Rank::loop() { return network_; }

Task<> Rank::close() {
  if (failure_ || closed_) co_return Result<void>();
  closed_ = true;
  for (std::uint32_t to = 0; to < size(); ++to) {
    if (to == rank_) continue;
    // Not before the last frame.
    const double arrival = network_.now() + network_.model.latency_seconds;
    network_.at(std::max(arrival, network_.channel(rank_, to, lane_).last_arrival),
                [&network = network_, from = rank_, to, lane = lane_] {
                  network.channel(from, to, lane).left = true;
                  if (Rank* other = network.member(to, lane)) other->note_goodbye(from);
                });
  }
  co_return Result<void>();
}

void Rank::begin(Send& send) {
  ensure(send.to < size() && send.to != rank_, "a message to a rank outside the group");
  if (network_.channel(send.to, rank_, lane_).left) lose(send.to);
  if (const Error* error = error_for(send.to)) return network_.end(send, *error);
  network_.channel(rank_, send.to, lane_).sends.push_back(send);
  network_.offer(rank_, send.to, lane_);
}

void Rank::go_on(Send& send) { network_.offer(rank_, send.to, lane_); }

void Rank::begin(Receive& receive) {
  if (!receive.rank) {
    if (failure_) return network_.end(receive, *failure_);
    from_any_.push_back(receive);
    for (std::uint32_t from = 0; from < size() && !receive.begun && !failure_; ++from) take(from);
    return;
  }
  const std::uint32_t from = *receive.rank;
  ensure(from < size() && from != rank_, "a message from a rank outside the group");
  if (const Error* error = error_for(from)) return network_.end(receive, *error);
  network_.channel(from, rank_, lane_).receives.push_back(receive);
  take(from);
}

void Rank::go_on(Receive& receive) {
  if (receive.begun) take(*receive.rank);
}

void Rank::withdraw(Send& send) {
  if (send.begun) fail({Errc::cancelled, "a message was given up half-way"}, rank_);
}

void Rank::withdraw(Receive& receive) {
  if (receive.begun) fail({Errc::cancelled, "a message was given up half-way"}, rank_);
}

/// Whoever waits for the message that begins with a frame about `subject`; null if nobody does.
Receive* Rank::receive_for(Channel& channel, std::uint32_t from, const Subject& subject) {
  if (channel.current != nullptr) return channel.current;
  WaitingList<Receive>& waiting = channel.receives.empty() ? from_any_ : channel.receives;
  if (waiting.empty()) return nullptr;
  Receive& receive = waiting.front();
  receive.begun = true;
  receive.rank = from;
  if (!receive.subject) receive.subject = subject;
  receive.unlink();
  return channel.current = &receive;
}

void Rank::take(std::uint32_t from) {
  Channel& channel = network_.channel(from, rank_, lane_);
  while (!channel.arrived.empty() && !channel.working && !failure_) {
    const Frame& frame = channel.arrived.front();
    Receive* receive = receive_for(channel, from, frame.subject);
    if (receive == nullptr || receive->admitted_bytes < frame.offset + frame.bytes) return;
    const double work =
        receive->receiver.computes() ? static_cast<double>(frame.bytes) * network_.model.combine_seconds_per_byte : 0;
    if (work > 0) {
      channel.working = true;
      network_.at(network_.occupy(rank_, work), [&network = network_, from, to = rank_, lane = lane_] {
        Channel& way = network.channel(from, to, lane);
        way.working = false;
        Rank* self = network.member(to, lane);
        if (self == nullptr || self->failed() || way.current == nullptr) return;
        self->deliver(way, from);
        self->take(from);
      });
      return;
    }
    deliver(channel, from);
  }
  if (channel.arrived.empty() && channel.left && !failure_ &&
      (channel.current != nullptr || !channel.receives.empty())) {
    lose(from);
  }
}

/// Passes the first frame that has arrived to the receive that waits for it.
void Rank::deliver(Channel& channel, std::uint32_t from) {
  Receive& receive = *channel.current;
  const Frame frame = std::move(channel.arrived.front());
  channel.arrived.pop_front();
  channel.window_used -= frame.wire_bytes();
  network_.offer(from, rank_, lane_);
  traffic_[from].received_bytes += frame.wire_bytes();
  if (auto taken = take_frame(receive, frame); !taken) {
    const Error error = taken.error().within("rank " + std::to_string(from));
    fail(error, rank_);
    channel.current = nullptr;
    return network_.end(receive, error);
  }
  if (!frame.last()) return;
  channel.current = nullptr;
  network_.end(receive, {});
}

Result<void> Rank::take_frame(Receive& receive, const Frame& frame) {
  if (frame.offset == 0) {
    if (frame.subject != *receive.subject) {
      return Error{Errc::malformed,
                   "a message about " + to_string(frame.subject) + " where " + to_string(*receive.subject) + " is due"};
    }
    if (auto begun = receive.receiver.begin(frame.message_bytes); !begun) return begun;
  }
  if (frame.bytes == 0) return {};
  if (network_.model.carries_data) {
    const std::span<std::byte> place = receive.receiver.place(frame.offset, frame.bytes);
    if (!place.empty()) std::memcpy(place.data(), frame.data.data(), frame.bytes);
    receive.receiver.arrived(frame.offset, place.empty() ? BytesView(frame.data) : place);
  }
  receive.receiver.progressed(frame.offset + frame.bytes);
  return {};
}

void Rank::note_goodbye(std::uint32_t rank) {
  Channel& in = network_.channel(rank, rank_, lane_);
  if (failure_ || !in.arrived.empty()) return;
  if (in.current != nullptr || !in.receives.empty() || !network_.channel(rank_, rank, lane_).sends.empty()) lose(rank);
}

void Rank::lose(std::uint32_t rank) {
  if (failure_ || closed_ || gone_[rank]) return;
  const Error error{Errc::peer_lost, "rank " + std::to_string(rank) + " is gone"};
  if (network_.loss == Loss::ends_the_group) return fail(error, rank);
  gone_[rank] = error;
  end_transfers(rank, error);
}

/// Makes `cause` final; `lost` is to blame.
void Rank::fail(const Error& cause, std::uint32_t lost) {
  if (failure_) return;
  failure_ = cause;
  if (cause.code == Errc::peer_lost) lost_rank_ = lost;
  for (std::uint32_t other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    end_transfers(other, cause);
    if (closed_) continue;
    network_.at(network_.now() + network_.model.latency_seconds, [&network = network_, lost, other, lane = lane_] {
      Rank* member = network.member(other, lane);
      if (member != nullptr && other != lost) member->lose(lost);
    });
  }
  while (!from_any_.empty()) network_.end(from_any_.front(), cause);
  if (when_failed_) when_failed_(cause);
}

/// Ends what is under way to and from `other`.
void Rank::end_transfers(std::uint32_t other, const Error& cause) {
  Channel& out = network_.channel(rank_, other, lane_);
  Channel& in = network_.channel(other, rank_, lane_);
  while (!out.sends.empty()) network_.end(out.sends.front(), cause);
  if (in.current != nullptr) network_.end(*std::exchange(in.current, nullptr), cause);
  while (!in.receives.empty()) network_.end(in.receives.front(), cause);
}

}  // namespace

std::unique_ptr<InProcessNetwork> InProcessNetwork::make(std::uint32_t ranks, std::uint32_t lanes,
                                                         const NetworkModel& model, Loss loss) {
  ensure(ranks > 0 && lanes > 0, "a group has at least one rank and one lane");
  return std::make_unique<Network>(ranks, lanes, model, loss);
}

std::vector<std::unique_ptr<Fabric>> in_process_group(std::uint32_t ranks, std::uint32_t lanes) {
  auto owned = InProcessNetwork::make(ranks, lanes);
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
