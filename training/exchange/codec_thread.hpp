#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "collectives/loop.hpp"

namespace weir::training {

/// A thread on which tasks of a loop compute, while the loop goes on with other tasks. Work is done one after the
/// other: urgent work first, and otherwise in the order in which it was begun. The thread must be stopped before the
/// tasks that have begun work are destroyed, and destroyed after them: until then they may begin more.
class CodecThread {
 public:
  /// A piece of work: of the thread until it is done, then of the loop. `co_await` returns its result.
  class Item : public collectives::Waiting, public collectives::Loop::Request {
   public:
    Item(const Item&) = delete;

   protected:
    explicit Item(bool urgent) : urgent_(urgent) {}
    ~Item() = default;

   private:
    friend class CodecThread;
    virtual Result<void> work() = 0;
    void run() final {
      hold_.reset();
      loop_->end(*this, *result_);
    }

    const bool urgent_;
    collectives::Loop* loop_ = nullptr;
    std::optional<collectives::Loop::Hold> hold_;
    std::optional<Result<void>> result_;
  };

  explicit CodecThread(collectives::Loop& loop);
  ~CodecThread();

  void begin(Item& item);

  /// Waits for the work in progress; what has not begun, or is begun from now on, is never done.
  void stop();

 private:
  void work_through(const std::stop_token& stopping);

  collectives::Loop& loop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Item*> items_;  ///< the next one first; few
  std::jthread thread_;
};

/// The threads of an exchange: what is encoded waits neither for what is decoded nor for gradients that a device is
/// still computing and that are only added up.
struct CodecThreads {
  explicit CodecThreads(collectives::Loop& loop) : encoder(loop), decoder(loop), gatherer(loop) {}
  void stop() {
    encoder.stop();
    decoder.stop();
    gatherer.stop();
  }

  CodecThread encoder;
  CodecThread decoder;
  CodecThread gatherer;  ///< of plain buckets on a device, and of all that its host's devices add up
};

/// `co_await Computation(thread, urgent, work)`: work(), which returns a Result<void>, on the thread.
template <class Work>
class Computation final : public CodecThread::Item {
 public:
  Computation(CodecThread& thread, bool urgent, Work work) : Item(urgent), work_(std::move(work)) {
    thread.begin(*this);
  }

 private:
  Result<void> work() override { return work_(); }
  Work work_;
};

}  // namespace weir::training
