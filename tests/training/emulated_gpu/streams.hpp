#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace weir::testing {

/// Streams of the device. Work that nobody waits for is put off for as long as the rules of streams allow: until
/// somebody waits for it, or the work of another stream needs it. So what is read too early is not there yet.
class DeviceStreams {
 public:
  using Id = std::int64_t;

  /// A point in a stream's work.
  struct Point {
    Id stream = 0;
    std::uint64_t number = 0;  ///< of the work before it
  };

  static DeviceStreams& get();

  /// The calling thread's.
  static Id& current();
  Id take_new();

  void add(Id stream, std::function<void()> work);
  Point end_of(Id stream);
  bool reached(const Point& point);
  void run_to(const Point& point);
  void run_all(Id stream) { run_to(end_of(stream)); }

 private:
  struct Queue {
    std::deque<std::function<void()>> work;
    std::uint64_t done = 0;
  };

  std::recursive_mutex mutex_;
  std::map<Id, Queue> queues_;
  Id newest_ = 0;
};

}  // namespace weir::testing
