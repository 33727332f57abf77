#pragma once

#include <boost/container/vector.hpp>
#include <cstddef>
#include <memory>
#include <span>

namespace weir {

/// A vector of bytes. resize(size, boost::container::default_init) leaves new bytes uninitialized, for buffers that are
/// overwritten at once.
using Bytes = boost::container::vector<std::byte>;
using BytesView = std::span<const std::byte>;

/// Appends `bytes`, which must not be part of `out`.
inline void append(Bytes& out, BytesView bytes) {
  out.insert(out.end(), bytes.data(), bytes.data() + bytes.size());  // pointers, not span iterators: becomes a memcpy
}

/// Read-only bytes that keep their owner alive: a tensor's storage, a received buffer, a mapped file. Copying a Segment
/// copies two pointers. In an actor message it travels out of line: the socket reads from, and writes to, this memory.
class Segment {
 public:
  Segment() = default;
  Segment(std::shared_ptr<const void> owner, BytesView bytes) : owner_(std::move(owner)), bytes_(bytes) {}

  /// Takes a buffer over without copying its bytes.
  static Segment own(Bytes bytes) {
    auto owner = std::make_shared<const Bytes>(std::move(bytes));
    BytesView view(*owner);
    return {std::move(owner), view};
  }

  /// A part of it, with the same owner. It must lie within it.
  Segment slice(std::size_t offset, std::size_t count) const { return {owner_, bytes_.subspan(offset, count)}; }

  BytesView bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

 private:
  std::shared_ptr<const void> owner_;
  BytesView bytes_;
};

}  // namespace weir
