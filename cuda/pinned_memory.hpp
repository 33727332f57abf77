#pragma once

#include <cstddef>
#include <span>

#include "base/result.hpp"

namespace weir::cuda {

/// Bytes of the host's memory that the device copies from and to by itself, so that who asks for the copy need not
/// wait. Freed with this object: no copy may be under way then. Taking and freeing it may wait for the device's work.
/// Fails with: exhausted, internal.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  PinnedMemory& operator=(PinnedMemory&&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  PinnedMemory(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_;
  std::size_t size_;
};

}  // namespace weir::cuda
