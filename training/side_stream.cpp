#include "training/side_stream.hpp"

#include "training/device.hpp"

namespace weir::training {

SideStream::SideStream(c10::Stream stream)
    : stream_(stream), held_(stream.device_type()), joined_(stream.device_type()) {}

void SideStream::hold_back() {
  held_.record(streams_of(stream_.device()).getStream(stream_.device()));
  held_.block(stream_);
}

void SideStream::join() {
  joined_.record(stream_);
  joined_.block(streams_of(stream_.device()).getStream(stream_.device()));
}

}  // namespace weir::training
