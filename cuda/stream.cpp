#include "cuda/stream.hpp"

#include "cuda/check.cuh"

namespace weir::cuda {

Result<Stream> Stream::make() {
  StreamHandle handle = nullptr;
  const auto made = check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "making a stream");
  if (!made) return made.error();
  return Stream(handle);
}

Stream::~Stream() {
  // An error here is one of the stream's work, which wait() reports.
  if (handle_ != nullptr) cudaStreamDestroy(handle_);
}

Result<void> Stream::wait() const { return check(cudaStreamSynchronize(handle_), "waiting for a stream"); }

}  // namespace weir::cuda
