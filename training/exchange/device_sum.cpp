#include "training/exchange/device_sum.hpp"

#include <ATen/ops/empty.h>

#include "base/errc.hpp"
#include "compressors/device/sums.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

using collectives::Element;

Element element_of(at::ScalarType number) {
  if (number == at::kHalf) return Element::float16;
  return number == at::kBFloat16 ? Element::bfloat16 : Element::float32;
}

}  // namespace

DeviceSum::DeviceSum(at::Device device, at::ScalarType number, std::int64_t entries, bool with_vote, SumPlace place)
    : entries_(entries),
      with_vote_(with_vote),
      place_(place),
      means_(at::empty({entries + (with_vote ? 1 : 0)}, at::TensorOptions(at::kFloat).device(device))),
      numbers_(number == at::kFloat ? means_ : at::empty({entries}, at::TensorOptions(number).device(device))),
      below_(place == SumPlace::device ? at::Tensor()
                                       : at::empty(numbers_.sizes(), host_memory_for(device).dtype(number))) {}

Result<bool> DeviceSum::gather(std::span<const at::Tensor> values, float share, float vote) {
  stream_ = compressors::device::current_cuda_stream(means_);
  if (with_vote_) means_.narrow(0, entries_, 1).fill_(vote);
  const at::Tensor copy = place_ == SumPlace::host ? below_ : at::Tensor();
  return compressors::device::write_shares(values, share, numbers_, copy);
}

collectives::Buffer DeviceSum::numbers() const {
  if (below_.defined()) {
    return {{static_cast<std::byte*>(below_.data_ptr()), below_.nbytes()}, element_of(below_.scalar_type())};
  }
  return numbers_there();
}

collectives::Buffer DeviceSum::numbers_there() const {
  return {.bytes = {static_cast<std::byte*>(numbers_.data_ptr()), numbers_.nbytes()},
          .element = element_of(numbers_.scalar_type()),
          .device = {.gpu = means_.device().index(), .stream = stream_}};
}

void DeviceSum::bring_down() { below_.copy_(numbers_); }

void DeviceSum::bring_up() { numbers_.copy_(below_, /*non_blocking=*/true); }

Result<void> DeviceSum::conclude() {
  if (place_ == SumPlace::host) bring_up();
  if (with_vote_) votes_ = on_host((below_.defined() ? below_ : means_).narrow(0, entries_, 1)).item<float>();
  if (numbers_.is_same(means_)) return {};
  const auto widened = compressors::device::widen(numbers_, means_);
  if (!widened) return widened.error();
  return *widened ? Result<void>() : Error(Errc::malformed, "a sum of 16 bits has a number that is not finite");
}

}  // namespace weir::training
