#pragma once

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/ensure.hpp"
#include "runtime/asio.hpp"
#include "runtime/clock.hpp"
#include "runtime/transport.hpp"

namespace weir::runtime::testing {

/// Time that only moves when the simulation says so.
class VirtualClock final : public Clock {
 public:
  time_point now() const override { return now_; }
  std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(now_.time_since_epoch()));
  }
  std::unique_ptr<Timer> set_timer(net::any_io_executor executor, time_point when,
                                   std::function<void()> callback) override;

  /// Jumps to the next alarm, if it is not after `until`, and posts its callback. Returns false if there is none.
  bool jump(time_point until);
  void advance_to(time_point when) { now_ = std::max(now_, when); }

 private:
  class Alarm;
  struct Entry {
    net::any_io_executor executor;
    std::function<void()> callback;
    std::shared_ptr<bool> alive;
  };
  time_point now_{std::chrono::hours(24 * 365 * 50)};  // some day in 2019
  std::multimap<time_point, Entry> alarms_;            // equal times in the order they were set
};

/// The run queue of a simulation. Each step runs one piece of work, picked at random, so that the seed determines the
/// schedule. Work of one strand stays in order; between strands every order can happen.
class RunQueue final : public net::execution_context {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    virtual void run() = 0;
  };

  /// The work of one process: none of it runs while the process is stopped.
  struct Process {
    bool stopped = false;
    std::vector<std::unique_ptr<Work>> held;  ///< work that was picked while the process was stopped
  };

  explicit RunQueue(std::uint64_t seed) : random_(seed) {}
  ~RunQueue() { drop(); }

  void push(std::unique_ptr<Work> work, Process* process) { ready_.push_back({std::move(work), process}); }
  /// Runs one piece of work. Returns false if there is none.
  bool step();
  /// Destroys all work without running it.
  void drop();
  net::any_io_executor executor() { return executor(nullptr); }
  net::any_io_executor executor(Process* process);

  /// Adds a process, which lives as long as the queue.
  Process* add_process();
  /// Continues a stopped process: its held work is ready again.
  void resume(Process& process);

 private:
  struct Ready {
    std::unique_ptr<Work> work;
    Process* process;  ///< null for work that cannot be stopped
  };
  std::mt19937_64 random_;
  std::vector<Ready> ready_;
  std::vector<std::unique_ptr<Process>> processes_;
};

/// Links between the systems of one simulation. Every frame is copied from one end to the other and delivered as a
/// step of its own.
class InProcessTransport final : public Transport {
 public:
  InProcessTransport(net::any_io_executor executor, Clock& clock);
  ~InProcessTransport() override;

  /// Makes a transport of the same network whose ends of links run on `executor`. It must not outlive this one.
  std::unique_ptr<Transport> of(net::any_io_executor executor) const;

  Result<std::unique_ptr<Listener>> listen(net::any_io_executor executor, const Endpoint& at, Accept accept) override;
  net::awaitable<Result<std::shared_ptr<Link>>> connect(Endpoint to) override;

  /// Breaks every link, as if all cables were cut and both ends saw it.
  void cut();
  /// Loses all frames in both directions, unnoticed, until thaw(), as a half-open link does.
  void freeze();
  void thaw();
  /// From now on each direction of each link carries this many bytes per second. While frozen, bytes on the way do not
  /// move.
  void limit_rate(std::uint64_t bytes_per_second);

 private:
  struct Network;
  class View;
  net::any_io_executor executor_;
  std::shared_ptr<Network> network_;
};

/// Executor and transport of a simulated process that can be stopped and continued, as by SIGSTOP and SIGCONT. While it
/// is stopped, none of its work runs, and what is sent to it waits.
class SimulatedProcess {
 public:
  SimulatedProcess(RunQueue& queue, const InProcessTransport& network)
      : queue_(queue), process_(queue.add_process()), transport_(network.of(executor())) {}

  net::any_io_executor executor() { return queue_.executor(process_); }
  Transport& transport() { return *transport_; }
  void stop() { process_->stopped = true; }
  void resume() { queue_.resume(*process_); }

 private:
  RunQueue& queue_;
  RunQueue::Process* process_;
  std::unique_ptr<Transport> transport_;
};

/// A whole cluster in one thread: a random but replayable schedule, virtual time, in-process links. Nothing sleeps.
///
///     Simulation simulation(seed);
///     ActorSystem a(simulation.options("a"));
///     auto result = simulation.run(ask(a));       // steps until the coroutine has ended
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : queue_(seed), transport_(queue_.executor(), clock_) {}

  net::any_io_executor executor() { return queue_.executor(); }
  VirtualClock& clock() { return clock_; }
  InProcessTransport& transport() { return transport_; }
  /// Makes a process, which must not outlive the simulation.
  std::unique_ptr<SimulatedProcess> process() { return std::make_unique<SimulatedProcess>(queue_, transport_); }

  /// Runs everything that can run without time passing.
  void settle();

  /// Runs until `done` holds; lets time jump to the next alarm when no work is left. Returns false if no alarm is left
  /// either, or `limit` of virtual time has passed.
  bool run_until(const std::function<bool()>& done, Clock::duration limit = std::chrono::hours(1));

  /// Runs and lets exactly `time` pass.
  void pass(Clock::duration time);

  /// Runs `task` to its end and returns its value. An exception in it is rethrown here.
  template <class T>
  T run(net::awaitable<T> task);

 private:
  RunQueue queue_;
  VirtualClock clock_;
  InProcessTransport transport_;
};

template <class T>
T Simulation::run(net::awaitable<T> task) {
  std::optional<T> value;
  std::exception_ptr thrown;
  net::co_spawn(executor(), std::move(task), [&](std::exception_ptr e, T v) {
    thrown = std::move(e);
    value = std::move(v);
  });
  ensure(run_until([&] { return value.has_value(); }), "the coroutine comes to an end");
  if (thrown) std::rethrow_exception(thrown);
  return std::move(*value);
}

/// For tasks without a value.
template <>
void Simulation::run(net::awaitable<void> task);

}  // namespace weir::runtime::testing
