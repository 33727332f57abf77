#include "training/gossip/neighbour_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "collectives/topologies/ring.hpp"

namespace weir::training {

using collectives::Subject;
using collectives::Task;

/// What the compute thread asks of the loop, again and again.
class NeighbourExchange::Call final : public collectives::Loop::Request {
 public:
  explicit Call(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  const std::function<void()> work_;
};

class NeighbourExchange::Ready final : public collectives::Waiting {};

NeighbourExchange::NeighbourExchange(collectives::Fabric& fabric, const collectives::Graph& graph,
                                     std::span<const NamedTensor> parameters, std::size_t messages)
    : fabric_(fabric), lane_(std::min(1U, fabric.lanes() - 1)), trace_(fabric, parameters, messages) {
  start_ = std::make_unique<Call>([this] { start(); });
  for (std::size_t m = 0; m < messages; ++m) {
    messages_.push_back(std::make_unique<Message>());
    messages_.back()->call = std::make_unique<Call>([this, m] { now_ready(m); });
  }
  fabric.thread().call([&] { gossip_ = std::make_unique<collectives::Gossip>(fabric.lane(lane_), graph); });
  for (const auto other : gossip_->neighbours()) {
    weights_.push_back(static_cast<float>(graph.mixing_weight(fabric.rank(), other)));
  }
}

NeighbourExchange::~NeighbourExchange() {
  fabric_.thread().call([this] {
    task_.reset();
    gossip_.reset();
  });
}

void NeighbourExchange::begin(const Step& step) {
  {
    const std::lock_guard lock(mutex_);
    through_ = 0;
  }
  step_ = step;
  trace_.begin(step.begin);
  fabric_.thread().loop().post(*start_);
}

void NeighbourExchange::mix(std::size_t message, std::span<float> values, const Load& load) {
  Message& it = *messages_[message];
  it.mixes = true;
  it.values = values;
  it.load = load;
  fabric_.thread().loop().post(*it.call);
}

void NeighbourExchange::gather(std::size_t message, BytesView own, std::size_t bytes_max, const Load& load) {
  Message& it = *messages_[message];
  it.mixes = false;
  it.own = own;
  it.gathered.bytes_max = bytes_max;
  it.load = load;
  fabric_.thread().loop().post(*it.call);
}

Result<void> NeighbourExchange::wait(std::size_t message) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return through_ > message || failure_; });
  if (through_ > message) return {};
  return *failure_;
}

Result<void> NeighbourExchange::add_up(std::span<float> values) {
  return fabric_.thread().run([&]() -> Task<> {
    collectives::Ring ring(fabric_.lane(0));
    const collectives::Buffer buffer{std::as_writable_bytes(values)};
    const Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(messages_.size()), .part = 0};
    co_return co_await ring.all_reduce(buffer, collectives::ReduceOp::sum, about);
  });
}

void NeighbourExchange::start() {
  for (auto& message : messages_) message->ready = false;
  current_ = 0;
  task_.emplace(carry_all());
  task_->start();
}

void NeighbourExchange::now_ready(std::size_t message) {
  messages_[message]->ready = true;
  if (awaited_ != nullptr && current_ == message) {
    fabric_.thread().loop().end(*std::exchange(awaited_, nullptr), {});
  }
}

Task<> NeighbourExchange::carry_all() {
  for (; current_ < messages_.size(); ++current_) {
    if (!messages_[current_]->ready) {
      Ready ready;
      awaited_ = &ready;
      (void)co_await ready;
    }
    auto carrying = carry(current_);
    auto done = co_await carrying;
    end(current_, done);
    if (!done) co_return done;
  }
  co_return Result<void>();
}

Task<> NeighbourExchange::carry(std::size_t message) {
  Message& it = *messages_[message];
  const Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(message), .part = 0};
  const StepTrace::WireSpan span(trace_, message, it.load, it.mixes ? 0 : 1, lane_);
  auto operation =
      it.mixes ? gossip_->mix({std::as_writable_bytes(it.values)}, about) : gossip_->gather(it.own, it.gathered, about);
  co_return co_await operation;
}

void NeighbourExchange::end(std::size_t message, const Result<void>& result) {
  const std::lock_guard lock(mutex_);
  if (result) {
    through_ = message + 1;
  } else {
    failure_ = result.error().within("message " + std::to_string(message) + " to the neighbours");
  }
  changed_.notify_all();
}

}  // namespace weir::training
