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
#include "cuda/event.hpp"
#include "cuda/stream.hpp"

namespace weir::compressors::device {
namespace {

/// As many as LibTorch makes itself. They are never destroyed: LibTorch's allocator remembers streams.
constexpr std::size_t stream_count = 32;
using Streams = std::array<cuda::StreamHandle, stream_count>;

/// Bytes of which copies between host and device overlap with those within the host's memory.
constexpr std::size_t piece = std::size_t{4} << 20;

/// Copies within the host's memory on several threads (at::set_num_threads): one does not reach the speed of the way to
/// the device.
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

at::Tensor bring_up_bytes(BytesView from, const at::Tensor& beside) {
  const at::Tensor below = host_bytes(beside, from.size());
  at::Tensor above = scratch(beside, from.size());
  for (std::size_t begin = 0; begin < from.size(); begin += piece) {
    const auto first = static_cast<std::int64_t>(begin);
    const std::size_t size = std::min(piece, from.size() - begin);
    copy_below(place<std::byte>(below) + begin, from.data() + begin, size);
    above.narrow(0, first, static_cast<std::int64_t>(size))
        .copy_(below.narrow(0, first, static_cast<std::int64_t>(size)), /*non_blocking=*/true);
  }
  return above;
}

Result<void> bring_down(const at::Tensor& from, std::span<std::byte> head, std::span<std::byte> rest) {
  ensure(head.size() <= piece, "a head within the first piece");
  const std::size_t all = head.size() + rest.size();
  const at::Tensor below = host_bytes(from, all);
  const auto* const bytes = place<std::byte>(below);
  std::vector<cuda::Event> ends;  // of all pieces but the last
  for (std::size_t begin = 0; begin < all; begin += piece) {
    const auto first = static_cast<std::int64_t>(begin);
    const auto size = static_cast<std::int64_t>(std::min(piece, all - begin));
    below.narrow(0, first, size).copy_(from.narrow(0, first, size), /*non_blocking=*/true);
    if (begin + piece >= all) break;
    auto end = cuda::Event::make_untimed();
    if (!end) return end.error();
    if (auto recorded = end->record(current_handle(from)); !recorded) return recorded;
    ends.push_back(std::move(*end));
  }
  for (std::size_t begin = 0; begin < all; begin += piece) {
    if (const std::size_t number = begin / piece; number < ends.size()) {
      if (auto reached = ends[number].wait(); !reached) return reached;
    } else {
      wait(from);
    }
    if (begin == 0) std::memcpy(head.data(), bytes, head.size());
    const std::size_t of_rest = std::max(begin, head.size());
    const std::size_t end = std::min(begin + piece, all);
    if (end > of_rest) copy_below(rest.data() + (of_rest - head.size()), bytes + of_rest, end - of_rest);
  }
  return {};
}

}  // namespace weir::compressors::device
