#include "runtime/testing/simulation.hpp"

#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <utility>

namespace weir::runtime::testing {

class VirtualClock::Alarm final : public Timer {
 public:
  explicit Alarm(std::shared_ptr<bool> alive) : alive_(std::move(alive)) {}
  ~Alarm() override { *alive_ = false; }

 private:
  std::shared_ptr<bool> alive_;
};

std::unique_ptr<Timer> VirtualClock::set_timer(net::any_io_executor executor, time_point when,
                                               std::function<void()> callback) {
  auto alive = std::make_shared<bool>(true);
  alarms_.emplace(when, Entry{std::move(executor), std::move(callback), alive});
  return std::make_unique<Alarm>(std::move(alive));
}

bool VirtualClock::jump(time_point until) {
  while (!alarms_.empty()) {
    auto first = alarms_.begin();
    if (!*first->second.alive) {
      alarms_.erase(first);
      continue;
    }
    if (first->first > until) return false;
    advance_to(first->first);
    Entry entry = std::move(first->second);
    alarms_.erase(first);
    auto executor = std::move(entry.executor);
    net::post(executor, [callback = std::move(entry.callback), alive = std::move(entry.alive)] {
      if (*alive) callback();
    });
    return true;
  }
  return false;
}

namespace {

/// An executor that puts its work into the run queue and never runs any in place. It must not report blocking.never
/// unless that was required: a strand over it could then run nothing in place either, which Asio's cancellation of a
/// spawned coroutine relies on.
struct QueueExecutor {
  RunQueue* queue;
  RunQueue::Process* process = nullptr;
  bool never_in_place = false;  ///< true if blocking.never was required

  net::execution_context& query(net::execution::context_t) const noexcept { return *queue; }
  net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    if (never_in_place) return net::execution::blocking.never;
    return net::execution::blocking.possibly;
  }
  QueueExecutor require(net::execution::blocking_t::never_t) const noexcept { return {queue, process, true}; }
  QueueExecutor require(net::execution::blocking_t::possibly_t) const noexcept { return {queue, process, false}; }
  friend bool operator==(const QueueExecutor&, const QueueExecutor&) = default;

  template <class F>
  void execute(F&& function) const {
    queue->push(std::make_unique<WorkOf<std::decay_t<F>>>(std::forward<F>(function)), process);
  }

 private:
  template <class F>
  struct WorkOf final : RunQueue::Work {
    explicit WorkOf(F&& f) : function(std::move(f)) {}
    explicit WorkOf(const F& f) : function(f) {}
    void run() override { function(); }
    F function;
  };
};

}  // namespace

bool RunQueue::step() {
  while (!ready_.empty()) {
    // Not std::uniform_int_distribution: its sequence is not the same in every library.
    const std::size_t index = random_() % ready_.size();
    Ready next = std::move(ready_[index]);
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(index));
    if (next.process != nullptr && next.process->stopped) {
      next.process->held.push_back(std::move(next.work));
      continue;
    }
    next.work->run();
    return true;
  }
  return false;
}

void RunQueue::drop() {
  for (const auto& process : processes_) resume(*process);
  while (!ready_.empty()) {  // destroying a suspended coroutine may post more
    Ready last = std::move(ready_.back());
    ready_.pop_back();
  }
}

net::any_io_executor RunQueue::executor(Process* process) { return QueueExecutor{this, process, false}; }

RunQueue::Process* RunQueue::add_process() {
  processes_.push_back(std::make_unique<Process>());
  return processes_.back().get();
}

void RunQueue::resume(Process& process) {
  process.stopped = false;
  for (auto& work : std::exchange(process.held, {})) ready_.push_back({std::move(work), &process});
}

void Simulation::settle() {
  while (queue_.step()) {
  }
}

bool Simulation::run_until(const std::function<bool()>& done, Clock::duration limit) {
  const auto end = clock_.now() + limit;
  while (!done()) {
    if (!queue_.step() && !clock_.jump(end)) return done();
  }
  return true;
}

void Simulation::pass(Clock::duration time) {
  const auto end = clock_.now() + time;
  do settle();
  while (clock_.jump(end));
  clock_.advance_to(end);
}

template <>
void Simulation::run(net::awaitable<void> task) {
  bool done = false;
  std::exception_ptr thrown;
  net::co_spawn(executor(), std::move(task), [&](std::exception_ptr e) {
    thrown = std::move(e);
    done = true;
  });
  ensure(run_until([&] { return done; }), "the coroutine comes to an end");
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace weir::runtime::testing
