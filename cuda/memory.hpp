#pragma once

#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// Bytes of the device's memory, freed with this object: no work that uses them may be under way then. Fails with:
/// exhausted, internal.
class Memory {
 public:
  static Result<Memory> allocate(std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  Memory& operator=(Memory&&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// These work in the order of the stream. Bytes on the host must stay until the stream has passed the copy.
  Result<void> fill(std::byte with, StreamHandle stream) const;
  Result<void> copy_from_host(std::span<const std::byte> from, StreamHandle stream) const;
  Result<void> copy_to_host(std::span<std::byte> to, StreamHandle stream, std::size_t from = 0) const;
  Result<void> copy_from(const Memory& from, StreamHandle stream) const;

 private:
  Memory(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_;
  std::size_t size_;
};

/// Sets bytes of the device's memory, in the order of the stream. Fails with: internal.
Result<void> fill_bytes(std::byte* at, std::size_t size, std::byte with, StreamHandle stream);

/// Copies bytes between any two places in the device's or pinned memory, in the order of the stream. Fails with:
/// internal.
Result<void> copy_bytes(std::span<const std::byte> from, std::byte* to, StreamHandle stream);

}  // namespace weir::cuda
