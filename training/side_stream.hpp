#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace weir::training {

/// A stream of a device beside those in which threads compute there, and what orders it among them. No more than one
/// thread at a time.
class SideStream {
 public:
  explicit SideStream(c10::Stream stream);

  const c10::Stream& stream() const { return stream_; }

  /// Has it go on only after what is in the calling thread's current stream.
  void hold_back() {
    note();
    follow();
  }

  /// The same in two parts, of which the second may be another thread's: notes what is in the calling thread's current
  /// stream now, and has this one go on only after what was noted last.
  void note();
  void follow() { noted_.block(stream_); }

  /// Has the calling thread's current stream go on only after what is in this one.
  void join();

  /// Blocks until what is in it is done.
  void wait() const { stream_.synchronize(); }

 private:
  c10::Stream stream_;
  c10::Event noted_;  ///< an event serves again as soon as a stream has been told to wait for it
  c10::Event joined_;
};

/// A stream of a device that is not the processor, for a SideStream: one in which tensors are coded there
/// (compressors/device), if they can be.
c10::Stream stream_for_coding(c10::Device device);

/// As long as it exists, what the calling thread has a device do is done in a side stream, after what was in the
/// thread's current stream before it and before what will be in that after it. Without a side stream it does nothing.
class InSideStream {
 public:
  explicit InSideStream(SideStream* side);
  ~InSideStream();
  InSideStream(const InSideStream&) = delete;
  InSideStream& operator=(const InSideStream&) = delete;

 private:
  SideStream* const side_;
  c10::OptionalStreamGuard within_;
};

}  // namespace weir::training
