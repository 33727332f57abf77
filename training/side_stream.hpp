#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace weir::training {

/// A stream of a device beside those in which threads compute there, and what orders it among them. No more than one
/// thread at a time.
class SideStream {
 public:
  explicit SideStream(c10::Stream stream);

  const c10::Stream& stream() const { return stream_; }

  /// Has it go on only after what is in the calling thread's current stream.
  void hold_back();

  /// Has the calling thread's current stream go on only after what is in this one.
  void join();

  /// Blocks until what is in it is done.
  void wait() const { stream_.synchronize(); }

 private:
  c10::Stream stream_;
  c10::Event held_;  ///< an event serves again as soon as a stream has been told to wait for it
  c10::Event joined_;
};

}  // namespace weir::training
