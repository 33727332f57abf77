#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <deque>
#include <utility>

#include "base/errc.hpp"
#include "runtime/testing/simulation.hpp"

namespace weir::runtime::testing {
namespace {

constexpr std::size_t queued_bytes_max = 256u << 20;

/// One end of an in-process link. All of a simulation runs in one thread, so there is nothing to lock.
class InProcessLink final : public Link, public std::enable_shared_from_this<InProcessLink> {
 public:
  InProcessLink(net::any_io_executor executor, std::string remote, const bool& frozen)
      : executor_(net::make_strand(std::move(executor))), remote_(std::move(remote)), frozen_(frozen) {}
  ~InProcessLink() override { part({Errc::peer_lost, "dropped"}); }

  void pair_with(const std::shared_ptr<InProcessLink>& other) { other_ = other; }

  void start(std::shared_ptr<LinkHandler> handler) override {
    handler_ = std::move(handler);
    self_ = shared_from_this();  // an open link lives by itself, as a socket's receive loop does
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
    if (!other || frozen_) return {};
    other->put({kind, Bytes(body.data(), body.data() + body.size()), {segments.begin(), segments.end()}, bytes, {}});
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

  /// The simulation ends: an open link ends with it and tells nobody, as a socket does whose io_context goes away.
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
    std::optional<Error> end;  ///< not a frame: the other side has gone, after all it sent
  };

  void part(const Error& why) {
    if (std::exchange(closed_, true)) return;
    auto other = other_.lock();
    if (other && !frozen_) other->put({{}, {}, {}, 0, why});
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
    received_ += item.bytes;
    if (item.end) return shut(*item.end);
    if (item.body.size() > limits_.body_bytes_max || item.segments.size() > limits_.segments_max) {
      return shut({Errc::exhausted, "frame over the limits"});
    }
    auto handler = handler_;
    handler->on_frame({item.kind, item.body, item.segments});
  }

  net::any_io_executor executor_;
  std::string remote_;
  const bool& frozen_;
  std::weak_ptr<InProcessLink> other_;
  std::shared_ptr<InProcessLink> self_;
  std::shared_ptr<LinkHandler> handler_;
  FrameLimits limits_;
  std::deque<Item> inbox_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  bool closed_ = false;
};

}  // namespace

struct InProcessTransport::Network {
  std::map<std::string, Accept> listeners;
  std::vector<std::weak_ptr<InProcessLink>> links;
  std::uint16_t next_port = 1;
  bool frozen = false;

  class Registration final : public Listener {
   public:
    Registration(std::shared_ptr<Network> network, Endpoint at) : network_(std::move(network)), at_(std::move(at)) {}
    ~Registration() override { network_->listeners.erase(at_.text()); }
    Endpoint endpoint() const override { return at_; }

   private:
    std::shared_ptr<Network> network_;
    Endpoint at_;
  };
};

InProcessTransport::InProcessTransport(net::any_io_executor executor)
    : executor_(std::move(executor)), network_(std::make_shared<Network>()) {}

InProcessTransport::~InProcessTransport() {
  for (const auto& weak : std::exchange(network_->links, {})) {
    if (auto link = weak.lock()) link->drop();
  }
}

Result<std::unique_ptr<Listener>> InProcessTransport::listen(net::any_io_executor, const Endpoint& at, Accept accept) {
  Endpoint bound = at;
  if (bound.port == 0) bound.port = network_->next_port++;
  if (!network_->listeners.emplace(bound.text(), std::move(accept)).second) {
    return Error{Errc::io, bound.text() + " is in use"};
  }
  return std::make_unique<Network::Registration>(network_, bound);
}

net::awaitable<Result<std::shared_ptr<Link>>> InProcessTransport::connect(Endpoint to) {
  auto found = network_->listeners.find(to.text());
  if (found == network_->listeners.end()) co_return Error{Errc::io, "nobody listens at " + to.text()};
  auto near = std::make_shared<InProcessLink>(executor_, to.text(), network_->frozen);
  auto far = std::make_shared<InProcessLink>(executor_, "caller of " + to.text(), network_->frozen);
  near->pair_with(far);
  far->pair_with(near);
  network_->links.push_back(near);
  network_->links.push_back(far);
  net::post(executor_, [accept = found->second, far] { accept(far); });
  std::shared_ptr<Link> link = near;
  co_return link;
}

void InProcessTransport::cut() {
  std::erase_if(network_->links, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : network_->links) weak.lock()->close({Errc::peer_lost, "the cable is cut"});
}

void InProcessTransport::freeze() { network_->frozen = true; }
void InProcessTransport::thaw() { network_->frozen = false; }

}  // namespace weir::runtime::testing
