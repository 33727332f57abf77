#include "compressors/device/download.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/memory.hpp"

namespace weir::compressors::device {

Result<Download> Download::make(const at::Tensor& beside, std::size_t head_bytes, std::span<const std::size_t> bodies) {
  constexpr std::size_t alignment = 16;
  Download made;
  made.head_bytes_ = head_bytes;
  std::size_t end = bodies.size() * head_bytes;
  for (const std::size_t bytes : bodies) {
    const std::size_t begin = (end + alignment - 1) / alignment * alignment;
    made.bodies_.push_back({begin, bytes});
    end = begin + bytes;
  }
  made.above_ = scratch(beside, end);
  auto cleared =
      cuda::fill_bytes(place<std::byte>(made.above_), bodies.size() * head_bytes, std::byte{0}, current_handle(beside));
  return cleared ? Result<Download>(std::move(made)) : cleared.error();
}

std::byte* Download::head(std::size_t i) const { return place<std::byte>(above_) + i * head_bytes_; }
std::byte* Download::body(std::size_t i) const { return place<std::byte>(above_) + bodies_[i].begin; }
const std::byte* Download::head_below(std::size_t i) const { return place<std::byte>(below_) + i * head_bytes_; }
const std::byte* Download::body_below(std::size_t i) const { return place<std::byte>(below_) + bodies_[i].begin; }

Result<void> Download::begin() {
  const auto all = static_cast<std::size_t>(above_.numel());
  below_ = host_bytes(above_, all);
  for (std::size_t begin = 0; begin < all; begin += copied_piece) {
    const auto first = static_cast<std::int64_t>(begin);
    const auto size = static_cast<std::int64_t>(std::min(copied_piece, all - begin));
    below_.narrow(0, first, size).copy_(above_.narrow(0, first, size), /*non_blocking=*/true);
    auto end = cuda::Event::make_untimed();
    if (!end) return end.error();
    if (auto recorded = end->record(current_handle(above_)); !recorded) return recorded;
    ends_.push_back(std::move(*end));
  }
  return {};
}

/// An empty body may lie behind the last byte.
const cuda::Event& Download::come(std::size_t byte) const {
  return ends_[std::min(byte / copied_piece, ends_.size() - 1)];
}

Result<void> Download::wait(std::size_t i) const {
  const auto [begin, bytes] = bodies_[i];
  return come(bytes == 0 ? begin : begin + bytes - 1).wait();
}

Result<void> Download::copy_body(std::size_t i, std::span<std::byte> to) const {
  const auto [begin, bytes] = bodies_[i];
  ensure(to.size() == bytes, "room for the body");
  if (bytes == 0) return wait(i);
  for (std::size_t at = begin; at < begin + bytes;) {
    if (auto there = come(at).wait(); !there) return there;
    const std::size_t end = std::min((at / copied_piece + 1) * copied_piece, begin + bytes);
    copy_below(to.data() + (at - begin), place<std::byte>(below_) + at, end - at);
    at = end;
  }
  return {};
}

}  // namespace weir::compressors::device
