#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>

#include "base/descriptor.hpp"
#include "collectives/loop.hpp"

namespace weir::collectives {

/// Runs the coroutines of one process's end of a group, and the connections that they wait for.
class EpollLoop final : public Loop {
 public:
  static constexpr std::uint32_t lanes_max = 4;

  /// A connection. While it is active it gets its turn in every round, after those of more urgent lanes.
  class Source : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    explicit Source(std::uint32_t lane) : lane_(lane) {}
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    /// What the descriptor has become: EPOLLIN, EPOLLOUT, EPOLLRDHUP, ... It is active afterwards.
    virtual void note(std::uint32_t events) = 0;
    /// Does a part of its work. Returns false if there is nothing to do before the next event or activate().
    virtual bool work() = 0;

   protected:
    ~Source() = default;

   private:
    friend class EpollLoop;
    const std::uint32_t lane_;
  };

  EpollLoop();

  /// Watches `descriptor` for `source`, until forget().
  void watch(int descriptor, Source& source);
  void forget(int descriptor);
  void activate(Source& source);

  /// Something that ends at a time, unless it was ended before.
  class Timer final : public Waiting {
   public:
    Timer(EpollLoop& loop, std::chrono::steady_clock::time_point time) : time_(time) { loop.timers_.push_back(*this); }

   private:
    friend class EpollLoop;
    const std::chrono::steady_clock::time_point time_;
  };

 protected:
  bool advance(bool may_wait) override;
  void wake() override;

 private:
  void poll(bool may_wait);
  void end_timers();
  int milliseconds_to_wait() const;

  Descriptor epoll_;
  Descriptor wake_;
  std::array<boost::intrusive::list<Source, boost::intrusive::constant_time_size<false>>, lanes_max> active_;
  WaitingList<Timer> timers_;
  std::uint32_t rounds_ = 0;
};

}  // namespace weir::collectives
