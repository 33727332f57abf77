#pragma once

#include "base/result.hpp"

/// CUDA's own name of what a cudaStream_t points to.
struct CUstream_st;

namespace weir::cuda {

/// A stream of work for the device, as launchers take it. Null is the device's default stream.
using StreamHandle = CUstream_st*;

/// A stream. Work put into it runs in order, beside that of other streams. Fails with: internal.
class Stream {
 public:
  static Result<Stream> make();
  ~Stream();
  Stream(Stream&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Stream& operator=(Stream&&) = delete;

  StreamHandle handle() const { return handle_; }

  /// Whether everything that was put into the stream has run. Does not wait. Fails also with the error of its work.
  Result<bool> idle() const;

  /// Blocks until everything that was put into the stream has run. Not on a strand.
  Result<void> wait() const;

 private:
  explicit Stream(StreamHandle handle) : handle_(handle) {}

  StreamHandle handle_;
};

}  // namespace weir::cuda
