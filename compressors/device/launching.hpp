#pragma once

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::compressors::device {

// What the sources of this folder share. Scratch is taken from LibTorch's allocator, which gives it to later work of
// the same stream when it is dropped.

/// The calling thread's current stream on the device of `tensor`, for LibTorch and for kernels.
c10::Stream current_stream(const at::Tensor& tensor);
cuda::StreamHandle current_handle(const at::Tensor& tensor);
/// The same where the stream may also be LibTorch's default one, in which a training computes. CUDA's own name of that
/// is null.
cuda::StreamHandle computing_handle(const at::Tensor& tensor);

/// Bytes beside `tensor`, whose content nobody has set.
inline at::Tensor scratch(const at::Tensor& tensor, std::size_t bytes) {
  return at::empty({static_cast<std::int64_t>(bytes)}, tensor.options().dtype(at::kByte));
}

/// For a kernel to report in, beside `tensor`: nothing yet.
inline at::Tensor new_report(const at::Tensor& tensor) {
  return at::zeros({sizeof(cuda::Report)}, tensor.options().dtype(at::kByte));
}

/// Where the first T of `tensor` lies, on the device.
template <class T>
T* place(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

inline std::uint64_t size_of(const at::Tensor& tensor) { return static_cast<std::uint64_t>(tensor.numel()); }

/// Memory of the host that a device copies from and to by itself.
inline at::Tensor host_bytes(const at::Tensor& beside, std::size_t bytes) {
  return at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(at::kByte).pinned_memory(beside.is_cuda()));
}

/// Begins to copy the first bytes of `from` to the host. They are there after wait().
inline at::Tensor fetch(const at::Tensor& from, std::size_t bytes) {
  at::Tensor to = host_bytes(from, bytes);
  if (bytes > 0) to.copy_(from.narrow(0, 0, static_cast<std::int64_t>(bytes)), /*non_blocking=*/true);
  return to;
}
inline void wait(const at::Tensor& beside) { current_stream(beside).synchronize(); }

/// Bytes of which copies between host and device overlap with those within the host's memory.
inline constexpr std::size_t copied_piece = std::size_t{4} << 20;

/// Copies within the host's memory on several threads (at::set_num_threads): one does not reach the speed of the way to
/// the device.
void copy_below(std::byte* to, const std::byte* from, std::size_t bytes);

template <class T>
T read(const at::Tensor& from) {
  const at::Tensor host = fetch(from, sizeof(T));
  wait(from);
  T value;
  std::memcpy(&value, host.data_ptr(), sizeof value);
  return value;
}

/// Copies of what lies in several places of the host's memory.
struct RaisedBytes {
  at::Tensor all;
  std::vector<std::size_t> begins;  ///< of each, aligned to 16 bytes

  std::byte* place(std::size_t i) const { return static_cast<std::byte*>(all.data_ptr()) + begins[i]; }
};

/// Brings them up beside a tensor, together. While a piece is on its way, the next one is copied to where a device
/// copies from by itself.
RaisedBytes bring_up_all(std::span<const BytesView> from, const at::Tensor& beside);
template <class T>
at::Tensor bring_up(std::span<const T> from, const at::Tensor& beside) {
  const BytesView bytes = std::as_bytes(from);
  return bring_up_all(std::span(&bytes, 1), beside).all;
}

}  // namespace weir::compressors::device
