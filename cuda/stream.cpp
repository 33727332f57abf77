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

Result<bool> Stream::idle() const {
  const cudaError_t answer = cudaStreamQuery(handle_);
  if (answer == cudaErrorNotReady) return false;
  if (auto asked = check(answer, "asking for a stream"); !asked) return asked.error();
  return true;
}

Result<void> Stream::wait() const { return check(cudaStreamSynchronize(handle_), "waiting for a stream"); }

}  // namespace weir::cuda
