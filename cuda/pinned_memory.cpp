#include "cuda/pinned_memory.hpp"

#include "cuda/check.cuh"

namespace weir::cuda {

Result<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  void* data = nullptr;
  const auto made = check(cudaMallocHost(&data, bytes), "allocating " + std::to_string(bytes) + " pinned bytes");
  if (!made) return made.error();
  return PinnedMemory(static_cast<std::byte*>(data), bytes);
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cudaFreeHost(data_);  // an error here is one of earlier work, which its stream's wait() reports
}

}  // namespace weir::cuda
