#pragma once

#include "base/result.hpp"
#include "cuda/stream.hpp"

/// CUDA's own name of what a cudaEvent_t points to.
struct CUevent_st;

namespace weir::cuda {

/// A point in a stream's work. Fails with: internal.
class Event {
 public:
  static Result<Event> make();
  /// One that milliseconds_between() does not take, and that costs the stream less.
  static Result<Event> make_untimed();
  ~Event();
  Event(Event&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Event& operator=(Event&&) = delete;

  /// The point is where the stream's work ends now.
  Result<void> record(StreamHandle stream) const;

  /// Whether the point has been reached, or there is none yet. Does not wait. Fails also with the error of work before
  /// the point.
  Result<bool> reached() const;

  /// Has what is put into the stream from now on begin after the point.
  Result<void> hold_back(StreamHandle stream) const;

  /// Blocks until the point has been reached. Not on a strand.
  Result<void> wait() const;

  /// The time between two points that have been reached.
  static Result<float> milliseconds_between(const Event& start, const Event& end);

 private:
  explicit Event(CUevent_st* handle) : handle_(handle) {}

  CUevent_st* handle_;
};

}  // namespace weir::cuda
