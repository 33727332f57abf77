#include "collectives/transports/paced_stream.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ensure.hpp"

namespace weir::collectives {
namespace {

/// The first `bytes` of the parts.
std::vector<iovec> first_of(std::span<const iovec> parts, std::size_t bytes) {
  std::vector<iovec> first;
  for (const iovec& part : parts) {
    if (bytes == 0) break;
    first.push_back({part.iov_base, std::min(part.iov_len, bytes)});
    bytes -= first.back().iov_len;
  }
  return first;
}

std::size_t bytes_of(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

}  // namespace

PacedStream::PacedStream(std::unique_ptr<Stream> stream, std::shared_ptr<Pace> pace)
    : stream_(std::move(stream)),
      pace_(std::move(pace)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      events_(::epoll_create1(EPOLL_CLOEXEC)) {
  ensure(timer_ && events_, "a timer and its events");
  epoll_event of_timer{.events = EPOLLIN | EPOLLET, .data = {.fd = *timer_}};
  ensure(::epoll_ctl(*events_, EPOLL_CTL_ADD, *timer_, &of_timer) == 0, "a timer can be watched");
  const int inner = stream_->descriptor();
  epoll_event of_stream{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.fd = inner}};
  ensure(::epoll_ctl(*events_, EPOLL_CTL_ADD, inner, &of_stream) == 0, "a stream can be watched");
}

/// Passes no more than the bucket allows. If that is less than there is, the timer tells when there is more.
template <class Pass>
Result<std::size_t> PacedStream::pass(TokenBucket& bucket, std::span<const iovec> parts, const Pass& pass) {
  const std::size_t wanted = bytes_of(parts);
  const std::size_t allowed = bucket.allowance();
  if (allowed == 0 && wanted > 0) {
    wake_after(bucket.wait());
    return 0;
  }
  const auto first = first_of(parts, allowed);
  auto passed = pass(std::span<const iovec>(first));
  if (!passed) return passed;
  bucket.take(*passed);
  if (*passed == allowed && wanted > allowed) wake_after(bucket.wait());
  return passed;
}

Result<std::size_t> PacedStream::write(std::span<const iovec> parts) {
  const auto to_stream = [this](std::span<const iovec> first) { return stream_->write(first); };
  auto written = writes_freely_ ? to_stream(parts) : pass(pace_->sent, parts, to_stream);
  if (!written) {
    reads_freely_ = true;  // what the peer has said last is looked for now
    return written;
  }
  written_bytes_ += *written;
  return written;
}

/// As if the bytes had come at the rate, one after the other: what waits for the bucket waits for the line.
std::optional<LineUse> PacedStream::line_use() const {
  const auto bytes = static_cast<double>(written_bytes_);
  const std::chrono::duration<double> at_the_rate(bytes / pace_->sent.bytes_per_second());
  return LineUse{.bytes = written_bytes_, .busy = std::chrono::duration_cast<std::chrono::nanoseconds>(at_the_rate)};
}

Result<std::size_t> PacedStream::read(std::span<const iovec> parts) {
  if (reads_freely_) return stream_->read(parts);
  return pass(pace_->received, parts, [this](std::span<const iovec> first) { return stream_->read(first); });
}

Readiness PacedStream::readiness(std::uint32_t) {
  Readiness now;
  std::array<epoll_event, 2> events;
  const int count = ::epoll_wait(*events_, events.data(), static_cast<int>(events.size()), 0);
  for (const auto& event : std::span(events).first(static_cast<std::size_t>(std::max(0, count)))) {
    if (event.data.fd == *timer_) {
      std::uint64_t times = 0;
      [[maybe_unused]] const auto got = ::read(*timer_, &times, sizeof times);
      now.readable = now.writable = true;
      continue;
    }
    const Readiness of_stream = stream_->readiness(event.events);
    now.readable |= of_stream.readable;
    now.writable |= of_stream.writable;
    now.hung_up |= of_stream.hung_up;
  }
  reads_freely_ |= now.hung_up;
  return now;
}

/// If it is to wake for the other direction, too, the earlier time counts; who then may not go on yet asks again.
void PacedStream::wake_after(std::chrono::nanoseconds time) {
  itimerspec set{};
  ::timerfd_gettime(*timer_, &set);
  const auto left = std::chrono::seconds(set.it_value.tv_sec) + std::chrono::nanoseconds(set.it_value.tv_nsec);
  if (left.count() > 0 && left <= time) return;
  const auto at_least = std::max(time, std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_least);
  set.it_value = {.tv_sec = seconds.count(), .tv_nsec = (at_least - seconds).count()};
  ::timerfd_settime(*timer_, 0, &set, nullptr);
}

}  // namespace weir::collectives
