#include "training/exchange/host_copies.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "compressors/flat.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

const c10::impl::DeviceGuardImplInterface& streams_of(at::Device device) {
  return *c10::impl::getDeviceGuardImpl(device.type());
}

}  // namespace

HostCopies::HostCopies(std::span<const NamedTensor> tensors, std::span<const Bucket> buckets)
    : device_(tensors.front().tensor.device()) {
  const c10::Stream computing = streams_of(device_).getStream(device_);
  for (const auto& [name, tensor] : tensors) {
    places_.push_back({.value = {},
                       .copy = at::empty(tensor.sizes(), host_memory_for(device_)),
                       .positions = {},
                       .stream = computing});
    means_.push_back({.tensor = at::zeros(tensor.sizes(), at::TensorOptions(at::kFloat).device(device_)),
                      .sparse = false,
                      .positions = {}});
  }
  for (const Bucket& bucket : buckets) {
    const c10::Stream own = streams_of(device_).getStreamFromGlobalPool(device_);
    for (const auto tensor : bucket.parameters) places_[tensor].stream = own;
  }
}

at::Tensor HostCopies::fetch(std::uint32_t tensor, const at::Tensor& value) {
  Place& place = places_[tensor];
  place.value = value;
  c10::Event complete(device_.type());
  complete.record(streams_of(device_).getStream(device_));
  complete.block(place.stream);
  const c10::StreamGuard copying(place.stream);
  place.copy.copy_(value, /*non_blocking=*/true);
  return place.copy;
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
  // The decoder writes the next mean only after wait(): that must wait for this copy, too.
  c10::Event there(device_.type());
  there.record(streams_of(device_).getStream(device_));
  there.block(place.stream);
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
