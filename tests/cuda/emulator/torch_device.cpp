// The emulated device (tests/cuda/emulator) as one for LibTorch, under the key that LibTorch keeps for devices from
// outside (PrivateUse1). The host cannot touch its memory; kernels, and copies that nobody waits for, are put off until
// they are needed; LibTorch computes on it by the processor's operations on copies of its tensors, at once, so that it
// comes to the processor's bits. It is there in a program that is linked with it, or that starts with it loaded.

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cuda_runtime.h>

#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/cuda/emulator/device_memory.hpp"
#include "tests/cuda/emulator/emulator.hpp"

namespace weir::testing {
namespace {

constexpr auto device_type = c10::DeviceType::PrivateUse1;
const c10::Device device(device_type, 0);

/// As LibTorch has them: the address of what CUDA calls a stream, 0 for the default one.
cudaStream_t stream_of(c10::StreamId id) { return reinterpret_cast<cudaStream_t>(id); }
c10::StreamId& current() {
  thread_local c10::StreamId id = 0;
  return id;
}

/// Work of this device is put off from the beginning.
void begin() {
  static const auto* const always = new emulator::Deferred(emulator::Order::needed);
  (void)always;
}

/// How many operations of this device are under way in this thread: their copies are its own affair.
thread_local unsigned operations = 0;
struct Operation {
  Operation() {
    ++operations;
    emulator::catch_up(stream_of(current()));
  }
  ~Operation() { --operations; }
};

/// Memory that was freed is kept for the stream in which it was taken, as LibTorch's own allocator does: work in that
/// stream may still use it.
class Cache {
 public:
  static Cache& get() {
    static auto* const cache = new Cache;
    return *cache;
  }

  void* take(std::size_t bytes) {
    const std::lock_guard lock(emulator::device_mutex());
    auto& places = free_[{current(), bytes}];
    void* at = nullptr;
    if (!places.empty()) {
      at = places.back();
      places.pop_back();
    } else if (cudaMalloc(&at, bytes) != cudaSuccess) {
      give_all_back();
      if (cudaMalloc(&at, bytes) != cudaSuccess) return nullptr;
    }
    taken_[at] = {current(), bytes};
    return at;
  }

  void give_back(void* at) {
    if (at == nullptr) return;
    const std::lock_guard lock(emulator::device_mutex());
    const auto found = taken_.find(at);
    free_[found->second].push_back(at);
    taken_.erase(found);
  }

 private:
  using Kind = std::pair<c10::StreamId, std::size_t>;

  void give_all_back() {
    for (auto& [kind, places] : free_) {
      emulator::catch_up(stream_of(kind.first));
      for (void* const at : places) cudaFree(at);
    }
    free_.clear();
  }

  std::map<Kind, std::vector<void*>> free_;
  std::map<void*, Kind> taken_;
};

std::byte* on_host(const void* at) { return emulator::DeviceMemory::get().on_host(at); }

class Allocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(std::size_t bytes) override { return taken(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(on_host(to), on_host(from), bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return taken(bytes); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

 private:
  static void give_back(void* at) { Cache::get().give_back(at); }
  static c10::DataPtr taken(std::size_t bytes) {
    begin();
    void* const at = bytes == 0 ? nullptr : Cache::get().take(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, at != nullptr || bytes == 0, "out of memory: tried to allocate ", bytes,
                     " bytes");
    return {at, at, &give_back, device};
  }
};

Allocator* allocator() {
  static auto* const one = new Allocator;
  return one;
}

/// Events are CUDA's, as with LibTorch's guard for CUDA.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device, id); }

  c10::DeviceType type() const override { return device_type; }
  c10::Device exchangeDevice(c10::Device) const override { return device; }
  c10::Device getDevice() const override { return device; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(current()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    begin();
    cudaStream_t made = nullptr;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return stream(reinterpret_cast<c10::StreamId>(made));
  }
  c10::Stream exchangeStream(c10::Stream to) const noexcept override {
    return stream(std::exchange(current(), to.id()));
  }
  bool queryStream(const c10::Stream& of) const override { return cudaStreamQuery(stream_of(of.id())) == cudaSuccess; }
  void synchronizeStream(const c10::Stream& of) const override { cudaStreamSynchronize(stream_of(of.id())); }
  void record(void** event, const c10::Stream& of, c10::DeviceIndex, c10::EventFlag) const override {
    auto* made = static_cast<cudaEvent_t>(*event);
    if (made == nullptr) cudaEventCreate(&made);
    cudaEventRecord(made, stream_of(of.id()));
    *event = made;
  }
  void block(void* event, const c10::Stream& of) const override {
    if (event != nullptr) cudaStreamWaitEvent(stream_of(of.id()), static_cast<cudaEvent_t>(event), 0);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || cudaEventQuery(static_cast<cudaEvent_t>(event)) == cudaSuccess;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

/// A tensor of the processor with the memory of one of the device.
at::Tensor seen_by_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), tensor.scalar_type());
  return at::from_blob(on_host(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

at::Tensor empty(c10::IntArrayRef sizes, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                 c10::optional<at::Device>, c10::optional<bool>, c10::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::optional<at::ScalarType> type,
                         c10::optional<at::Layout>, c10::optional<at::Device>, c10::optional<bool>) {
  return at::detail::empty_strided_generic(
      sizes, strides, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type));
}

/// With the host's side of a copy kept, as a driver would pin it, and the device's side as it is when its turn comes.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const auto stream = stream_of(current());
  if (operations == 0 && to.is_cpu()) emulator::count_to_host(to.nbytes());
  if (operations == 0 && from.is_cpu()) emulator::count_to_device(to.nbytes());
  auto work = [source = seen_by_host(from.detach()), target = seen_by_host(to.detach())] {
    at::Tensor(target).copy_(source);
  };
  if (non_blocking && from.is_cpu() != to.is_cpu()) {
    emulator::enqueue(stream, [work = std::move(work)] { return work(), true; });
  } else {
    operations == 0 && to.is_cpu() ? emulator::drain(stream) : emulator::catch_up(stream);
    work();
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) {
    const at::Tensor fresh = at::empty(from.sizes(), to.options());
    auto* const tensor = to.unsafeGetTensorImpl();
    tensor->set_storage_keep_dtype(fresh.storage());
    tensor->set_sizes_and_strides(fresh.sizes(), fresh.strides());
  }
  return copy_from(from, to, false);
}

/// What a number on the host is read with: its caller waits for the copy.
at::Scalar local_scalar(const at::Tensor& tensor) { return at::_local_scalar_dense(tensor.cpu()); }

void compute_on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const Operation operation_of_device;
  at::native::cpu_fallback(operation, stack);
}

// Those that LibTorch does not leave to a fallback.

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const c10::optional<at::Tensor>& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, std::int64_t groups) {
  const Operation operation;
  const auto host_bias = bias && bias->defined() ? c10::optional<at::Tensor>(bias->cpu()) : c10::nullopt;
  return at::convolution(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation, transposed, output_padding,
                         groups)
      .to(device);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& output, const at::Tensor& input,
                                                                    const at::Tensor& weight, c10::IntArrayRef stride,
                                                                    c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                                    bool transposed, c10::IntArrayRef output_padding,
                                                                    std::int64_t groups, std::array<bool, 3> mask) {
  const Operation operation;
  const auto host = at::convolution_backward(output.cpu(), input.cpu(), weight.cpu(),
                                             at::IntArrayRef{weight.size(transposed ? 1 : 0)}, stride, padding,
                                             dilation, transposed, output_padding, groups, mask);
  const auto up = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; };
  return {up(std::get<0>(host)), up(std::get<1>(host)), up(std::get<2>(host))};
}

/// Its running statistics change, which its schema does not say.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                          const c10::optional<at::Tensor>& weight,
                                                          const c10::optional<at::Tensor>& bias,
                                                          const c10::optional<at::Tensor>& mean,
                                                          const c10::optional<at::Tensor>& variance, bool training,
                                                          double momentum, double epsilon) {
  const Operation operation;
  const auto down = [](const c10::optional<at::Tensor>& tensor) {
    return tensor && tensor->defined() ? c10::optional<at::Tensor>(tensor->cpu()) : c10::nullopt;
  };
  const auto host_mean = down(mean);
  const auto host_variance = down(variance);
  const auto host = at::native_batch_norm(input.cpu(), down(weight), down(bias), host_mean, host_variance, training,
                                          momentum, epsilon);
  if (training && host_mean) mean->copy_(*host_mean);
  if (training && host_variance) variance->copy_(*host_variance);
  return {std::get<0>(host).to(device), std::get<1>(host).to(device), std::get<2>(host).to(device)};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", local_scalar);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  library.impl("native_batch_norm", batch_norm);
  // Of lists, the fallback would change copies of the tensors.
  library.impl("_foreach_zero_", at::native::foreach_tensor_zero_slow_);
  library.impl("_foreach_add_.List", at::native::foreach_tensor_add_list_kernel_slow_);
  library.impl("_foreach_add_.Scalar", at::native::foreach_tensor_add_scalar_kernel_slow_);
  library.impl("_foreach_add.List", at::native::foreach_tensor_add_list_kernel_slow);
  library.impl("_foreach_mul_.Scalar", at::native::foreach_tensor_mul_scalar_kernel_slow_);
  library.impl("_foreach_mul.Scalar", at::native::foreach_tensor_mul_scalar_kernel_slow);
  library.impl("_foreach_div_.List", at::native::foreach_tensor_div_list_kernel_slow_);
  library.impl("_foreach_div_.Scalar", at::native::foreach_tensor_div_scalar_kernel_slow_);
  library.impl("_foreach_addcmul_.Scalar", at::native::foreach_tensor_addcmul_scalar_slow_);
  library.impl("_foreach_addcdiv_.Scalar", at::native::foreach_tensor_addcdiv_scalar_slow_);
  library.impl("_foreach_sqrt", at::native::foreach_tensor_sqrt_slow);
}

}  // namespace
}  // namespace weir::testing
