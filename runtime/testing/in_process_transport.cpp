#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <deque>
#include <utility>

#include "base/errc.hpp"
#include "runtime/testing/simulation.hpp"

namespace weir::runtime::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t queued_bytes_max = 256u << 20;
constexpr auto rate_tick = 20ms;  // how often the bytes on a rate-limited link advance

/// How all links of a network behave at the moment.
struct Conduct {
  net::any_io_executor executor;
  Clock& clock;
  bool frozen = false;
  std::uint64_t bytes_per_second = 0;  ///< 0: no limit
};

/// One end of an in-process link. All of a simulation runs in one thread, so there is nothing to lock.
class InProcessLink final : public Link, public std::enable_shared_from_this<InProcessLink> {
 public:
  InProcessLink(const net::any_io_executor& executor, std::string remote, const Conduct& conduct)
      : executor_(net::make_strand(executor)), remote_(std::move(remote)), conduct_(conduct) {}
  ~InProcessLink() override { part({Errc::peer_lost, "dropped"}); }

  void pair_with(const std::shared_ptr<InProcessLink>& other) { other_ = other; }

  void start(std::shared_ptr<LinkHandler> handler) override {
    handler_ = std::move(handler);
    self_ = shared_from_this();  // an open link keeps itself alive, as a socket's receive loop does
    for (std::size_t i = 0; i < inbox_.size(); ++i) post_delivery();
  }

  Result<void> send(FrameKind kind, BytesView body, std::span<const Segment> segments) override {
    if (closed_) return Error{Errc::peer_lost, "the link with " + remote_ + " is closed"};
    std::size_t bytes = frame_header_bytes + body.size();
    for (const Segment& segment : segments) bytes += segment.size();
    auto other = other_.lock();
    if (other && other->waiting_bytes_ > queued_bytes_max) {
      return Error{Errc::exhausted, std::to_string(other->waiting_bytes_) + " bytes wait to be read by " + remote_};
    }
    sent_ += bytes;
    if (!other) return {};
    Item item{kind, Bytes(body.data(), body.data() + body.size()), {segments.begin(), segments.end()}, bytes, {}};
    if (conduct_.bytes_per_second != 0) {
      on_the_wire_.push_back(std::move(item));
      if (!wire_timer_) await_tick();
    } else if (!conduct_.frozen) {
      acknowledged_ += bytes;
      other->received_ += bytes;
      other->put(std::move(item));
    }
    return {};
  }

  void close(Error reason) override {
    net::post(executor_, [self = shared_from_this(), reason = std::move(reason)] { self->shut(reason); });
  }

  void set_limits(FrameLimits limits) override { limits_ = limits; }
  net::any_io_executor executor() const override { return executor_; }
  std::string remote() const override { return remote_; }
  std::uint64_t bytes_sent() const override { return sent_; }
  std::uint64_t bytes_received() const override { return received_; }
  std::uint64_t bytes_accepted() const override { return sent_; }
  std::uint64_t bytes_acknowledged() const override { return acknowledged_; }

  /// For the end of the simulation: closes the link and tells nobody, like a socket whose io_context is destroyed.
  void drop() {
    closed_ = true;
    auto handler = std::exchange(handler_, nullptr);
    auto alive = std::exchange(self_, nullptr);
  }

  void shut(const Error& reason) {
    auto handler = std::exchange(handler_, nullptr);
    auto alive = std::exchange(self_, nullptr);
    if (closed_) return;
    part({Errc::peer_lost, "the other side has closed the link"});
    if (handler) handler->on_closed(reason);
  }

 private:
  struct Item {
    FrameKind kind{};
    Bytes body;
    std::vector<Segment> segments;
    std::size_t bytes = 0;
    std::optional<Error> end;  ///< not a frame: the other side has closed the link, after all it sent
  };

  void part(const Error& why) {
    if (std::exchange(closed_, true)) return;
    wire_timer_.reset();
    auto other = other_.lock();
    if (other && !conduct_.frozen) other->put({{}, {}, {}, 0, why});
  }

  void await_tick() {
    Clock& clock = conduct_.clock;
    wire_timer_ = clock.set_timer(conduct_.executor, clock.now() + rate_tick, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->move_on();
    });
  }

  /// Delivers the bytes that the link carries in one tick. In reality the kernel does this, so it happens whether or
  /// not the processes at the ends are stopped.
  void move_on() {
    auto other = other_.lock();
    if (!other || closed_) return;
    std::uint64_t budget = conduct_.frozen ? 0 : conduct_.bytes_per_second * rate_tick.count() / 1000;
    while (budget > 0 && !on_the_wire_.empty()) {
      Item& first = on_the_wire_.front();
      const auto moved = std::min<std::uint64_t>(budget, first.bytes - arrived_of_first_);
      budget -= moved;
      acknowledged_ += moved;
      other->received_ += moved;
      arrived_of_first_ += moved;
      if (arrived_of_first_ < first.bytes) break;
      arrived_of_first_ = 0;
      other->put(std::move(first));
      on_the_wire_.pop_front();
    }
    wire_timer_.reset();
    if (!on_the_wire_.empty()) await_tick();
  }

  void put(Item item) {
    waiting_bytes_ += item.bytes;
    inbox_.push_back(std::move(item));
    if (handler_) post_delivery();
  }

  void post_delivery() {
    net::post(executor_, [self = shared_from_this()] { self->deliver(); });
  }

  void deliver() {
    if (inbox_.empty() || !handler_) return;
    Item item = std::move(inbox_.front());
    inbox_.pop_front();
    waiting_bytes_ -= item.bytes;
    if (item.end) return shut(*item.end);
    if (item.body.size() > limits_.body_bytes_max || item.segments.size() > limits_.segments_max) {
      return shut({Errc::exhausted, "frame over the limits"});
    }
    auto handler = handler_;
    handler->on_frame({item.kind, item.body, item.segments});
  }

  net::any_io_executor executor_;
  std::string remote_;
  const Conduct& conduct_;
  std::weak_ptr<InProcessLink> other_;
  std::shared_ptr<InProcessLink> self_;
  std::shared_ptr<LinkHandler> handler_;
  FrameLimits limits_;
  std::deque<Item> inbox_;
  std::deque<Item> on_the_wire_;  ///< sent from here and not yet arrived, if the rate is limited
  std::uint64_t arrived_of_first_ = 0;
  std::unique_ptr<Timer> wire_timer_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t acknowledged_ = 0;
  bool closed_ = false;
};

}  // namespace

struct InProcessTransport::Network {
  Network(net::any_io_executor executor, Clock& clock) : conduct{std::move(executor), clock} {}

  struct Listening {
    net::any_io_executor executor;
    Accept accept;
  };
  std::map<std::string, Listening> listeners;
  std::vector<std::weak_ptr<InProcessLink>> links;
  std::uint16_t next_port = 1;
  Conduct conduct;

  class Registration final : public Listener {
   public:
    Registration(std::shared_ptr<Network> network, Endpoint at) : network_(std::move(network)), at_(std::move(at)) {}
    ~Registration() override { network_->listeners.erase(at_.text()); }
    Endpoint endpoint() const override { return at_; }

   private:
    std::shared_ptr<Network> network_;
    Endpoint at_;
  };

  static Result<std::unique_ptr<Listener>> listen(const std::shared_ptr<Network>& network,
                                                  net::any_io_executor executor, const Endpoint& at, Accept accept) {
    Endpoint bound = at;
    if (bound.port == 0) bound.port = network->next_port++;
    Listening listening{std::move(executor), std::move(accept)};
    if (!network->listeners.emplace(bound.text(), std::move(listening)).second) {
      return Error{Errc::io, bound.text() + " is in use"};
    }
    return std::make_unique<Registration>(network, bound);
  }

  /// As in a kernel, the link exists before the listening process has accepted it.
  Result<std::shared_ptr<Link>> connect(net::any_io_executor executor, const Endpoint& to) {
    auto found = listeners.find(to.text());
    if (found == listeners.end()) return Error{Errc::io, "nobody listens at " + to.text()};
    const Listening& there = found->second;
    auto near = std::make_shared<InProcessLink>(std::move(executor), to.text(), conduct);
    auto far = std::make_shared<InProcessLink>(there.executor, "caller of " + to.text(), conduct);
    near->pair_with(far);
    far->pair_with(near);
    links.push_back(near);
    links.push_back(far);
    net::post(there.executor, [accept = there.accept, far] { accept(far); });
    return std::shared_ptr<Link>(near);
  }
};

class InProcessTransport::View final : public Transport {
 public:
  View(net::any_io_executor executor, std::shared_ptr<Network> network)
      : executor_(std::move(executor)), network_(std::move(network)) {}

  Result<std::unique_ptr<Listener>> listen(net::any_io_executor executor, const Endpoint& at, Accept accept) override {
    return Network::listen(network_, std::move(executor), at, std::move(accept));
  }
  net::awaitable<Result<std::shared_ptr<Link>>> connect(Endpoint to) override {
    co_return network_->connect(executor_, to);
  }

 private:
  net::any_io_executor executor_;
  std::shared_ptr<Network> network_;
};

InProcessTransport::InProcessTransport(net::any_io_executor executor, Clock& clock)
    : executor_(executor), network_(std::make_shared<Network>(std::move(executor), clock)) {}

InProcessTransport::~InProcessTransport() {
  for (const auto& weak : std::exchange(network_->links, {})) {
    if (auto link = weak.lock()) link->drop();
  }
}

std::unique_ptr<Transport> InProcessTransport::of(net::any_io_executor executor) const {
  return std::make_unique<View>(std::move(executor), network_);
}

Result<std::unique_ptr<Listener>> InProcessTransport::listen(net::any_io_executor executor, const Endpoint& at,
                                                             Accept accept) {
  return Network::listen(network_, std::move(executor), at, std::move(accept));
}

net::awaitable<Result<std::shared_ptr<Link>>> InProcessTransport::connect(Endpoint to) {
  co_return network_->connect(executor_, to);
}

void InProcessTransport::cut() {
  std::erase_if(network_->links, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : network_->links) weak.lock()->close({Errc::peer_lost, "the cable is cut"});
}

void InProcessTransport::freeze() { network_->conduct.frozen = true; }
void InProcessTransport::thaw() { network_->conduct.frozen = false; }
void InProcessTransport::limit_rate(std::uint64_t bytes_per_second) {
  network_->conduct.bytes_per_second = bytes_per_second;
}

}  // namespace weir::runtime::testing
