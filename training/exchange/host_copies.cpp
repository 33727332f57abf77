#include "training/exchange/host_copies.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "compressors/flat.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

/// A stream for a bucket. `taken`: another one, if there is one; streams are given out in turns.
c10::Stream next_stream(at::Device device, const std::optional<c10::Stream>& taken) {
  const c10::Stream stream = stream_for_coding(device);
  return taken && stream == *taken ? stream_for_coding(device) : stream;
}

}  // namespace

HostCopies::HostCopies(std::span<const NamedTensor> tensors, std::span<const Bucket> buckets,
                       std::span<const Mean> means)
    : device_(tensors.front().tensor.device()) {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto sizes = tensors[t].tensor.sizes();
    const bool made_there = !means.empty() && means[t].is_there();
    places_.push_back({.value = {}, .copy = {}, .positions = {}, .bucket = 0});
    means_.push_back(
        {.tensor = made_there ? means[t].tensor : at::zeros(sizes, at::TensorOptions(at::kFloat).device(device_)),
         .sparse = false,
         .positions = {}});
  }
  lanes_.reserve(buckets.size());
  std::optional<c10::Stream> of_plain;
  if (std::ranges::any_of(buckets, &Bucket::coded)) of_plain = stream_for_coding(device_);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const bool beside_coded = of_plain && !buckets[b].coded;
    lanes_.push_back({.side = SideStream(beside_coded ? *of_plain : next_stream(device_, of_plain)), .fetched = {}});
    for (const auto tensor : buckets[b].parameters) places_[tensor].bucket = b;
  }
}

at::Tensor HostCopies::fetch(std::uint32_t tensor, const at::Tensor& value) {
  Place& place = places_[tensor];
  place.value = value;
  if (!place.copy.defined()) place.copy = at::empty(value.sizes(), host_memory_for(device_));
  lanes_[place.bucket].fetched.push_back(tensor);
  return place.copy;
}

void HostCopies::take_up(std::uint32_t tensor) {
  Lane& lane = lanes_[places_[tensor].bucket];
  lane.side.follow();
  const c10::StreamGuard copying(lane.side.stream());
  for (const auto fetched : lane.fetched) places_[fetched].copy.copy_(places_[fetched].value, /*non_blocking=*/true);
  lane.fetched.clear();
}

void HostCopies::put(std::uint32_t tensor, const Mean& mean) {
  Place& place = places_[tensor];
  place.value.reset();
  means_[tensor].positions_there.reset();
  at::Tensor& to = means_[tensor].tensor;
  if (mean.sparse) {
    put_entries(place, mean, to);
  } else {
    to.copy_(mean.tensor, /*non_blocking=*/true);
    place.positions.reset();
  }
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
