#include "training/side_stream.hpp"

#include <c10/util/Exception.h>

#include "compressors/device/device.hpp"
#include "training/device.hpp"

namespace weir::training {

SideStream::SideStream(c10::Stream stream)
    : stream_(stream), noted_(stream.device_type()), joined_(stream.device_type()) {}

void SideStream::note() { noted_.record(streams_of(stream_.device()).getStream(stream_.device())); }

void SideStream::join() {
  joined_.record(stream_);
  joined_.block(streams_of(stream_.device()).getStream(stream_.device()));
}

c10::Stream stream_for_coding(c10::Device device) {
  return compressors::device::has_kernels(device) ? compressors::device::coding_stream(device)
                                                  : streams_of(device).getStreamFromGlobalPool(device);
}

InSideStream::InSideStream(SideStream* side) : side_(side) {
  if (side_ == nullptr) return;
  side_->hold_back();
  within_.reset_stream(side_->stream());
}

InSideStream::~InSideStream() {
  if (side_ == nullptr) return;
  within_.reset();
  try {
    side_->join();
  } catch (const c10::Error&) {
    // The device has failed, and whatever it is told next will say so.
  }
}

}  // namespace weir::training
