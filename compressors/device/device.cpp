#include "compressors/device/device.hpp"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/stream.hpp"

namespace weir::compressors::device {
namespace {

/// As many as LibTorch makes itself. They are never destroyed: LibTorch's allocator remembers streams.
constexpr std::size_t stream_count = 32;
using Streams = std::array<cuda::StreamHandle, stream_count>;

const Streams& streams() {
  static const auto* const all = [] {
    auto* const made = new std::array<std::optional<cuda::Stream>, stream_count>;
    auto* const handles = new Streams;
    for (std::size_t i = 0; i < stream_count; ++i) {
      auto stream = cuda::Stream::make();
      TORCH_CHECK(stream.has_value(), stream.error().message());
      (*handles)[i] = (*made)[i].emplace(std::move(*stream)).handle();
    }
    return handles;
  }();
  return *all;
}

}  // namespace

bool has_kernels(at::Device device) {
  const bool may =
      device.type() == type_of_kernels() && !device.is_cpu() && (!device.has_index() || device.index() == 0);
  return may && check_kernels().has_value();
}

c10::Stream coding_stream(at::Device device) {
  static std::atomic<std::size_t> next = 0;
  const cuda::StreamHandle handle = streams()[next++ % stream_count];
  // LibTorch knows a stream that somebody else has made by its address: that is its number.
  return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(reinterpret_cast<std::intptr_t>(handle)));
}

c10::Stream current_stream(const at::Tensor& tensor) {
  return c10::impl::getDeviceGuardImpl(tensor.device().type())->getStream(tensor.device());
}

cuda::StreamHandle current_handle(const at::Tensor& tensor) {
  auto* const handle = reinterpret_cast<cuda::StreamHandle>(static_cast<std::intptr_t>(current_stream(tensor).id()));
  ensure(std::ranges::find(streams(), handle) != streams().end(), "what is coded on a device is put into its stream");
  return handle;
}

cuda::StreamHandle computing_handle(const at::Tensor& tensor) {
  return current_stream(tensor).id() == 0 ? nullptr : current_handle(tensor);
}

void copy_below(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t grain = std::size_t{256} << 10;
  const auto parts = static_cast<std::int64_t>((bytes + grain - 1) / grain);
  // The barrier at the end of the loop is libgomp's, where ThreadSanitizer does not see it; it sees this.
  std::atomic<std::int64_t> done = 0;
  at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
    const std::size_t begin = static_cast<std::size_t>(first) * grain;
    std::memcpy(to + begin, from + begin, std::min(bytes, static_cast<std::size_t>(last) * grain) - begin);
    done.fetch_add(last - first, std::memory_order_release);
  });
  ensure(done.load(std::memory_order_acquire) == parts, "all parts have been copied");
}

RaisedBytes bring_up_all(std::span<const BytesView> from, const at::Tensor& beside) {
  constexpr std::size_t alignment = 16;
  RaisedBytes raised;
  std::size_t size = 0;
  for (const BytesView one : from) {
    raised.begins.push_back(size);
    size += (one.size() + alignment - 1) / alignment * alignment;
  }
  const at::Tensor below = host_bytes(beside, size);
  raised.all = scratch(beside, size);
  std::size_t sent = 0;
  const auto send = [&](std::size_t end) {
    const auto first = static_cast<std::int64_t>(sent);
    const auto count = static_cast<std::int64_t>(end - sent);
    if (count > 0) raised.all.narrow(0, first, count).copy_(below.narrow(0, first, count), /*non_blocking=*/true);
    sent = end;
  };
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::size_t at = 0; at < from[i].size();) {
      const std::size_t begin = raised.begins[i] + at;
      if (begin == sent + copied_piece) send(begin);
      const std::size_t count = std::min(from[i].size() - at, sent + copied_piece - begin);
      copy_below(place<std::byte>(below) + begin, from[i].data() + at, count);
      at += count;
    }
  }
  send(size);
  return raised;
}

}  // namespace weir::compressors::device
