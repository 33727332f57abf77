#include "collectives/fabric.hpp"

#include <algorithm>
#include <condition_variable>
#include <coroutine>
#include <mutex>

#include "base/ensure.hpp"
#include "collectives/subgroup.hpp"

namespace weir::collectives {
namespace {

/// What another thread waits for.
class Outcome {
 public:
  void set(Result<void> result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    set_.notify_all();  // with the lock held: the object is gone as soon as the other thread has it
  }
  Result<void> wait() {
    std::unique_lock lock(mutex_);
    set_.wait(lock, [this] { return result_.has_value(); });
    return *result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable set_;
  std::optional<Result<void>> result_;
};

class CallRequest final : public Loop::Request {
 public:
  explicit CallRequest(const std::function<void()>& work) : work_(work) {}
  void run() override {
    work_();
    outcome.set({});
  }

  Outcome outcome;

 private:
  const std::function<void()>& work_;
};

/// A coroutine that nobody waits for.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { ensure(false, "a task ends with a result"); }
  };
};

Detached report(const std::function<Task<>()>& make, Outcome& outcome) {
  Result<void> result;
  {
    Task<> task = make();
    result = co_await task;
  }
  outcome.set(std::move(result));
}

class RunRequest final : public Loop::Request {
 public:
  explicit RunRequest(const std::function<Task<>()>& make) : make_(make) {}
  void run() override { report(make_, outcome); }

  Outcome outcome;

 private:
  const std::function<Task<>()>& make_;
};

}  // namespace

LoopThread::LoopThread(std::unique_ptr<Loop> loop) : loop_(std::move(loop)), thread_([this] { loop_->run(); }) {}

LoopThread::~LoopThread() {
  loop_->stop();
  thread_.join();
}

void LoopThread::call(const std::function<void()>& work) {
  CallRequest request(work);
  loop_->post(request);
  (void)request.outcome.wait();
}

Result<void> LoopThread::run(const std::function<Task<>()>& make) {
  RunRequest request(make);
  loop_->post(request);
  return request.outcome.wait();
}

Fabric::Fabric(std::shared_ptr<LoopThread> thread, std::vector<std::unique_ptr<Communicator>> lanes)
    : thread_(std::move(thread)),
      lanes_(std::move(lanes)),
      rank_(lanes_.front()->rank()),
      size_(lanes_.front()->size()) {
  thread_->call([this] {
    for (const auto& lane : lanes_) {
      lane->when_failed([this, failed = lane.get()](const Error& cause, const Blame& blame) {
        for (const auto& other : lanes_) {
          if (other.get() != failed) other->abort(cause, blame);
        }
      });
    }
  });
}

Fabric::~Fabric() {
  thread_->call([this] {
    for (const auto& lane : lanes_) lane->when_failed({});
    lanes_.clear();
  });
}

void Fabric::abort(const Error& cause, bool leaves) {
  thread_->call([&] {
    const Blame blame = leaves ? Blame::of_lost(rank_) : Blame::of_giving_up(rank_);
    lanes_.front()->abort(cause, blame);  // and with it the others
  });
}

void Fabric::close() {
  // Side by side, because each waits for the others.
  (void)thread_->run([this]() -> Task<> {
    std::vector<Task<>> closing;
    for (const auto& lane : lanes_) closing.push_back(lane->close());
    for (auto& task : closing) task.start();
    for (auto& task : closing) {
      if (auto closed = co_await task; !closed) co_return closed.error();
    }
    co_return Result<void>();
  });
}

Traffic Fabric::traffic_with(std::uint32_t rank) const {
  Traffic all;
  for (const auto& lane : lanes_) all += lane->traffic_with(rank);
  return all;
}

Traffic Fabric::traffic() const {
  Traffic all;
  for (const auto& lane : lanes_) all += lane->traffic();
  return all;
}

std::optional<std::uint32_t> Fabric::lost_rank() const {
  for (const auto& lane : lanes_) {
    if (const auto rank = lane->lost_rank()) return rank;
  }
  return std::nullopt;
}

bool Fabric::ended_by_another() const {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->ended_by_another(); });
}

std::unique_ptr<Fabric> part_of(Fabric& whole, const std::vector<std::uint32_t>& members, std::uint32_t lanes) {
  ensure(lanes <= whole.lanes(), "lanes that the group has");
  std::vector<std::unique_ptr<Communicator>> parts;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    parts.push_back(std::make_unique<SubGroup>(whole.lane(lane), members));
  }
  return std::make_unique<Fabric>(whole.shared_thread(), std::move(parts));
}

}  // namespace weir::collectives
