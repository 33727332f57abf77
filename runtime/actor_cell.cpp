#include "runtime/actor_cell.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace weir::runtime {
namespace {

constexpr int turns_per_drain = 256;
constexpr std::size_t idle_pumps_max = 64;

}  // namespace

class ActorCell::IdlePump {
 public:
  virtual ~IdlePump() = default;
  virtual void resume() = 0;
};

template <class Handler>
class ActorCell::IdlePumpOf final : public IdlePump {
 public:
  explicit IdlePumpOf(Handler&& handler) : handler_(std::move(handler)) {}
  void resume() override { std::move(handler_)(); }

 private:
  Handler handler_;
};

/// The Asio initiation with which a pump suspends until its cell resumes it.
struct ActorCell::Park {
  ActorCell* cell;
  template <class Handler>
  void operator()(Handler handler) {
    cell->idle_.push_back(std::make_unique<IdlePumpOf<Handler>>(std::move(handler)));
  }
};

ActorCell::ActorCell(ActorSystem& system, Clock& clock, const std::shared_ptr<Router>& router,
                     net::any_io_executor executor, Parts parts)
    : parts_(std::move(parts)), clock_(clock), executor_(std::move(executor)), object_(*parts_.object) {
  object_.system_ = &system;
  object_.clock_ = &clock;
  object_.router_ = router;
  object_.address_ = {router->process(), parts_.id};
  object_.name_ = parts_.options.name;
  object_.executor_ = executor_;
}

ActorCell::~ActorCell() = default;

void ActorCell::start() {
  const std::string title = parts_.type + (name().empty() ? "" : " " + name());
  turns_ = std::make_unique<TaskGroup>(executor_, "actor " + title);
  object_.tasks_ = std::make_unique<TaskGroup>(executor_, title);
  std::scoped_lock lock(mutex_);
  scheduled_ = true;
  net::post(executor_, [self = shared_from_this()] {
    if (!self->closed_) self->guard([&] { self->object_.on_start(); });
    self->drain();
  });
}

Result<void> ActorCell::accept(std::unique_ptr<Turn>& turn) {
  if (depth_.load(std::memory_order_relaxed) >= parts_.options.mailbox_max) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return Error{Errc::mailbox_full,
                 parts_.type + " has " + std::to_string(parts_.options.mailbox_max) + " messages to finish"};
  }
  std::scoped_lock lock(mutex_);
  if (closed_) return Error{Errc::not_found, parts_.type + " has stopped"};
  depth_.fetch_add(1, std::memory_order_relaxed);
  waiting_.push_back(std::move(turn));
  if (!scheduled_) schedule();
  return {};
}

void ActorCell::guard(const std::function<void()>& work) const {
  try {
    work();
  } catch (...) {
    (void)detail::error_of_current_exception(parts_.type);  // logs it
  }
}

void ActorCell::schedule() {
  scheduled_ = true;
  net::post(executor_, [self = shared_from_this()] { self->drain(); });
}

void ActorCell::drain() {
  budget_ = turns_per_drain;
  draining_ = true;
  while (!starting_ && drain_some()) {
  }
  draining_ = false;
}

bool ActorCell::drain_some() {
  {
    std::scoped_lock lock(mutex_);
    const bool busy = parts_.options.serial && pumps_ > 0 && idle_.empty();
    if (waiting_.empty() || closed_ || busy) {  // a busy serial actor's pump goes on by itself
      scheduled_ = false;
      return false;
    }
    if (budget_ == 0) {
      schedule();
      return false;
    }
  }
  if (!idle_.empty()) {
    auto pump = std::move(idle_.back());
    idle_.pop_back();
    pump->resume();
  } else {
    ++pumps_;
    starting_ = true;
    turns_->spawn("turn", pump(shared_from_this()));
  }
  return true;
}

std::unique_ptr<Turn> ActorCell::next_turn() {
  std::scoped_lock lock(mutex_);
  if (waiting_.empty() || closed_) return nullptr;
  if (budget_ == 0) {
    if (!scheduled_) schedule();
    return nullptr;
  }
  --budget_;
  auto turn = std::move(waiting_.front());
  waiting_.pop_front();
  return turn;
}

net::awaitable<void> ActorCell::pump(std::shared_ptr<ActorCell> self) {
  self->starting_ = false;
  if (!self->draining_) {  // not started from within drain(): if this turn suspends, drain() has to look for more work
    net::post(self->executor_, [self] { self->drain(); });
  }
  for (;;) {
    while (auto turn = self->next_turn()) {
      self->object_.caller_ = turn->caller.get();
      co_await turn->run();
      self->depth_.fetch_sub(1, std::memory_order_relaxed);
      self->handled_.fetch_add(1, std::memory_order_relaxed);
    }
    if (self->closed_ || self->idle_.size() >= idle_pumps_max) break;
    // The parked pump belongs to the cell: it must not own it.
    ActorCell* cell = std::exchange(self, nullptr).get();
    Park park{cell};
    co_await net::async_initiate<const net::deferred_t&, void()>(park, net::deferred);
    self = cell->shared_from_this();
  }
  --self->pumps_;
}

void* ActorCell::find_interface(std::uint64_t interface) const {
  for (const InterfaceEntry& entry : parts_.interfaces) {
    if (entry.id == interface) return entry.object;
  }
  return nullptr;
}

ActorCell::Found ActorCell::find_method(std::uint64_t method) const {
  for (const InterfaceEntry& interface : parts_.interfaces) {
    for (const MethodEntry& entry : interface.methods) {
      if (entry.id == method) return {interface.object, &entry};
    }
  }
  return {};
}

net::awaitable<void> ActorCell::stop() {
  auto self = shared_from_this();
  std::deque<std::unique_ptr<Turn>> refused;
  {
    std::scoped_lock lock(mutex_);
    if (closed_) co_return;
    closed_ = true;
    refused.swap(waiting_);
  }
  for (auto& turn : refused) turn->refuse({Errc::cancelled, parts_.type + " is stopping"});
  depth_.fetch_sub(refused.size(), std::memory_order_relaxed);
  for (auto& pump : std::exchange(idle_, {})) pump->resume();
  co_await object_.tasks_->stop(clock_);
  co_await turns_->stop(clock_);
  try {
    co_await object_.on_stop();
  } catch (...) {
    (void)detail::error_of_current_exception(parts_.type);  // logs it
  }
}

ActorInfo ActorCell::info() const {
  ActorInfo info;
  info.id = parts_.id;
  info.name = name();
  info.type = parts_.type;
  info.mailbox_depth = depth_.load(std::memory_order_relaxed);
  info.mailbox_max = parts_.options.mailbox_max;
  info.messages_handled = handled_.load(std::memory_order_relaxed);
  info.messages_refused = refused_.load(std::memory_order_relaxed);
  std::scoped_lock lock(mutex_);
  info.state = closed_ ? ActorState::stopping : ActorState::running;
  return info;
}

}  // namespace weir::runtime
