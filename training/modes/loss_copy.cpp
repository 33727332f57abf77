#include "training/modes/loss_copy.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include "training/device.hpp"

namespace weir::training {

LossCopy::LossCopy(at::Device device)
    : beside_(streams_of(device).getStreamFromGlobalPool(device)), value_(at::empty({}, host_memory_for(device))) {}

void LossCopy::begin(const at::Tensor& loss) {
  beside_.hold_back();
  const c10::StreamGuard copying(beside_.stream());
  value_.copy_(loss.detach(), /*non_blocking=*/true);
}

float LossCopy::wait() const {
  beside_.wait();
  return *value_.data_ptr<float>();
}

}  // namespace weir::training
