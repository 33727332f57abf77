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
  return device.type() == type_of_kernels() && !device.is_cpu() && (!device.has_index() || device.index() == 0);
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

at::Tensor bring_up_bytes(BytesView from, const at::Tensor& beside) {
  const at::Tensor below = host_bytes(beside, from.size());
  at::Tensor above = scratch(beside, from.size());
  for (std::size_t begin = 0; begin < from.size(); begin += copied_piece) {
    const auto first = static_cast<std::int64_t>(begin);
    const std::size_t size = std::min(copied_piece, from.size() - begin);
    copy_below(place<std::byte>(below) + begin, from.data() + begin, size);
    above.narrow(0, first, static_cast<std::int64_t>(size))
        .copy_(below.narrow(0, first, static_cast<std::int64_t>(size)), /*non_blocking=*/true);
  }
  return above;
}

}  // namespace weir::compressors::device
