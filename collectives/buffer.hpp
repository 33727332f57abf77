#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.hpp"
#include "collectives/reduce.hpp"

namespace weir::collectives {

/// Whose memory something is in. On a GPU it is written and read in the order of a stream.
struct Device {
  std::int32_t gpu = -1;   ///< its number in this process; -1: the host
  void* stream = nullptr;  ///< a cudaStream_t; null on the host

  bool is_host() const { return gpu < 0; }
};

/// Numbers that a collective works on, in place.
struct Buffer {
  std::span<std::byte> bytes;
  Element element = Element::float32;
  Device device = {};

  std::size_t count() const { return bytes.size() / bytes_of(element); }
};

/// What is only read: numbers, or a payload.
struct ConstBuffer {
  ConstBuffer(const Buffer& buffer) : bytes(buffer.bytes), element(buffer.element), device(buffer.device) {}
  template <std::convertible_to<BytesView> T>
  ConstBuffer(const T& in_host_memory) : bytes(in_host_memory) {}

  BytesView bytes;
  std::optional<Element> element;  ///< of numbers
  Device device;
};

/// `values` cut into one chunk per rank, equally long to within one element: the chunk of `rank`.
Buffer chunk_of(const Buffer& values, std::uint32_t ranks, std::uint32_t rank);

}  // namespace weir::collectives
