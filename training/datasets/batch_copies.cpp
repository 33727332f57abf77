#include "training/datasets/batch_copies.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include "training/device.hpp"

namespace weir::training {

BatchCopies::BatchCopies(at::Device device)
    : device_(device), beside_(streams_of(device).getStreamFromGlobalPool(device)) {}

Batch BatchCopies::begin(const Batch& batch) {
  const c10::StreamGuard copying(beside_.stream());
  Batch& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  copy(batch.input, place.input);
  copy(batch.target, place.target);
  return place;
}

void BatchCopies::copy(const at::Tensor& from, at::Tensor& to) {
  const bool fits = to.defined() && to.sizes() == from.sizes();
  if (!fits) to = at::empty(from.sizes(), from.options().device(device_).pinned_memory(false));
  to.copy_(from, /*non_blocking=*/true);
}

Batch BatchCopies::in_their_memory(Batch batch) const {
  return {in_their_memory(batch.input), in_their_memory(batch.target)};
}

at::Tensor BatchCopies::in_their_memory(const at::Tensor& tensor) const {
  if (!device_.is_cuda() || tensor.is_pinned()) return tensor;
  return at::empty(tensor.sizes(), host_memory_for(device_).dtype(tensor.scalar_type())).copy_(tensor);
}

}  // namespace weir::training
