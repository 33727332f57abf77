#include "training/exchange/host_copies.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "compressors/device/device.hpp"
#include "compressors/flat.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

const c10::impl::DeviceGuardImplInterface& streams_of(at::Device device) {
  return *c10::impl::getDeviceGuardImpl(device.type());
}

}  // namespace

HostCopies::HostCopies(std::span<const NamedTensor> tensors, std::span<const Bucket> buckets,
                       std::span<const Mean> means)
    : device_(tensors.front().tensor.device()) {
  const c10::Stream computing = streams_of(device_).getStream(device_);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto sizes = tensors[t].tensor.sizes();
    const bool made_there = !means.empty() && !means[t].tensor.is_cpu();
    places_.push_back({.value = {}, .copy = {}, .positions = {}, .stream = computing});
    means_.push_back(
        {.tensor = made_there ? means[t].tensor : at::zeros(sizes, at::TensorOptions(at::kFloat).device(device_)),
         .sparse = false,
         .positions = {}});
    if (!made_there) places_.back().copy = at::empty(sizes, host_memory_for(device_));
  }
  const bool may_code = compressors::device::has_kernels(device_);
  for (const Bucket& bucket : buckets) {
    const c10::Stream own =
        may_code ? compressors::device::coding_stream(device_) : streams_of(device_).getStreamFromGlobalPool(device_);
    for (const auto tensor : bucket.parameters) places_[tensor].stream = own;
  }
}

at::Tensor HostCopies::fetch(std::uint32_t tensor, const at::Tensor& value) {
  Place& place = places_[tensor];
  place.value = value;
  hold_back(tensor);
  const c10::StreamGuard copying(place.stream);
  place.copy.copy_(value, /*non_blocking=*/true);
  return place.copy;
}

at::Tensor HostCopies::keep(std::uint32_t tensor, const at::Tensor& value) {
  places_[tensor].value = value;
  hold_back(tensor);
  return value;
}

void HostCopies::hold_back(std::uint32_t tensor) const {
  c10::Event complete(device_.type());
  complete.record(streams_of(device_).getStream(device_));
  complete.block(places_[tensor].stream);
}

void HostCopies::join(std::uint32_t tensor) const {
  c10::Event coded(device_.type());
  coded.record(places_[tensor].stream);
  coded.block(streams_of(device_).getStream(device_));
}

void HostCopies::wait(std::uint32_t tensor) const { places_[tensor].stream.synchronize(); }

void HostCopies::put(std::uint32_t tensor, const Mean& mean) {
  Place& place = places_[tensor];
  place.value.reset();
  at::Tensor& to = means_[tensor].tensor;
  if (mean.sparse) {
    put_entries(place, mean, to);
  } else {
    to.copy_(mean.tensor, /*non_blocking=*/true);
    place.positions.reset();
  }
  // The decoder writes the next mean only after wait(), or after what was encoded on the device has come down: that
  // must wait for this copy, too.
  hold_back(tensor);
}

void HostCopies::put_entries(Place& place, const Mean& mean, at::Tensor& to) {
  const auto count = static_cast<std::int64_t>(mean.positions.size());
  at::Tensor positions = at::empty({count}, host_memory_for(device_).dtype(at::kLong));
  at::Tensor entries = at::empty({count}, host_memory_for(device_));
  const auto all = compressors::flat(std::as_const(mean.tensor));
  const auto values = compressors::flat(entries);
  auto* const numbers = positions.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < mean.positions.size(); ++i) {
    numbers[i] = mean.positions[i];
    values[i] = all[mean.positions[i]];
  }
  at::Tensor flat = to.view({-1});
  if (place.positions.defined()) {
    flat.index_fill_(0, place.positions, 0);
  } else {
    flat.zero_();
  }
  place.positions = positions.to(device_, /*non_blocking=*/true);
  // A position that is there more than once has the same value each time.
  flat.index_copy_(0, place.positions, entries.to(device_, /*non_blocking=*/true));
}

}  // namespace weir::training
