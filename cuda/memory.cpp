#include "cuda/memory.hpp"

#include "base/ensure.hpp"
#include "cuda/check.cuh"

namespace weir::cuda {

Result<Memory> Memory::allocate(std::size_t bytes) {
  void* data = nullptr;
  const auto made = check(cudaMalloc(&data, bytes), "allocating " + std::to_string(bytes) + " bytes on the device");
  if (!made) return made.error();
  return Memory(static_cast<std::byte*>(data), bytes);
}

Memory::~Memory() {
  if (data_ != nullptr) cudaFree(data_);  // an error here is one of earlier work, which its stream's wait() reports
}

Result<void> Memory::fill(std::byte with, StreamHandle stream) const { return fill_bytes(data_, size_, with, stream); }

Result<void> Memory::copy_from_host(std::span<const std::byte> from, StreamHandle stream) const {
  ensure(from.size() <= size_, "room on the device for what is copied");
  if (from.empty()) return {};
  return check(cudaMemcpyAsync(data_, from.data(), from.size(), cudaMemcpyHostToDevice, stream),
               "copying to the device");
}

Result<void> Memory::copy_to_host(std::span<std::byte> to, StreamHandle stream, std::size_t from) const {
  ensure(from <= size_ && to.size() <= size_ - from, "as many bytes on the device as are copied");
  if (to.empty()) return {};
  return check(cudaMemcpyAsync(to.data(), data_ + from, to.size(), cudaMemcpyDeviceToHost, stream),
               "copying from the device");
}

Result<void> Memory::copy_from(const Memory& from, StreamHandle stream) const {
  ensure(from.size_ <= size_, "room on the device for what is copied");
  if (from.size_ == 0) return {};
  return check(cudaMemcpyAsync(data_, from.data_, from.size_, cudaMemcpyDeviceToDevice, stream),
               "copying on the device");
}

Result<void> fill_bytes(std::byte* at, std::size_t size, std::byte with, StreamHandle stream) {
  if (size == 0) return {};
  return check(cudaMemsetAsync(at, std::to_integer<int>(with), size, stream), "filling memory of the device");
}

Result<void> copy_bytes(std::span<const std::byte> from, std::byte* to, StreamHandle stream) {
  if (from.empty()) return {};
  return check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDefault, stream), "copying bytes");
}

}  // namespace weir::cuda
