#include "collectives/transports/epoll_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/ensure.hpp"

namespace weir::collectives {
namespace {

/// While connections are active, new events are looked for once in so many rounds.
constexpr std::uint32_t rounds_between_polls = 4;

}  // namespace

EpollLoop::EpollLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ensure(epoll_ && wake_, "no descriptors for an event loop");
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ensure(::epoll_ctl(*epoll_, EPOLL_CTL_ADD, *wake_, &event) == 0, "an event descriptor can be watched");
}

void EpollLoop::watch(int descriptor, Source& source) {
  ensure(source.lane_ < lanes_max, "a lane that does not exist");
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = &source}};
  ensure(::epoll_ctl(*epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0, "a socket can be watched");
}

void EpollLoop::forget(int descriptor) {
  ensure(::epoll_ctl(*epoll_, EPOLL_CTL_DEL, descriptor, nullptr) == 0, "a socket that is watched");
}

void EpollLoop::activate(Source& source) {
  if (!source.is_linked()) active_[source.lane_].push_back(source);
}

bool EpollLoop::advance(bool may_wait) {
  const bool active = std::ranges::any_of(active_, [](const auto& lane) { return !lane.empty(); });
  const bool polls = !active || ++rounds_ % rounds_between_polls == 0;
  if (polls) poll(may_wait && !active);
  end_timers();
  bool worked = false;
  for (auto& lane : active_) {
    std::remove_reference_t<decltype(lane)> round;
    round.swap(lane);
    while (!round.empty()) {
      Source& source = round.front();
      round.pop_front();
      if (!source.work()) continue;
      worked = true;
      activate(source);
    }
  }
  return worked || !polls;
}

void EpollLoop::poll(bool may_wait) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(*epoll_, events.data(), events.size(), may_wait ? milliseconds_to_wait() : 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.ptr == nullptr) {
      std::uint64_t ignored = 0;
      // Nothing to read: somebody else's wake-up was read with an earlier one.
      if (::read(*wake_, &ignored, sizeof ignored) < 0) continue;
      continue;
    }
    auto& source = *static_cast<Source*>(event.data.ptr);
    source.note(event.events);
    activate(source);
  }
}

void EpollLoop::end_timers() {
  if (timers_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  for (auto it = timers_.begin(); it != timers_.end();) {
    Timer& timer = *it++;
    if (timer.time_ <= now) end(timer, {});
  }
}

int EpollLoop::milliseconds_to_wait() const {
  if (timers_.empty()) return -1;
  const auto first = std::ranges::min_element(timers_, {}, &Timer::time_)->time_;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void EpollLoop::wake() {
  const std::uint64_t one = 1;
  // The counter only ever has to be non-zero, so a refused write (it is full) changes nothing.
  if (::write(*wake_, &one, sizeof one) < 0) return;
}

}  // namespace weir::collectives
