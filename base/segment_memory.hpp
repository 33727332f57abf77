#pragma once

#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/bytes.hpp"

namespace weir {

/// Memory for a segment whose bytes are not set yet, aligned so that a tensor can use it in place; its pages are first
/// touched when bytes come in. Null if there is none left.
inline std::pair<Segment, std::span<std::byte>> uninitialized_segment(std::size_t bytes) {
  constexpr std::align_val_t alignment{64};
  auto* data = static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow));
  if (data == nullptr) return {};
  std::shared_ptr<void> owner(data, [](void* p) { ::operator delete(p, alignment); });
  return {Segment(std::move(owner), {data, bytes}), {data, bytes}};
}

}  // namespace weir
