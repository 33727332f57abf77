#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "base/result.hpp"
#include "protocol/job_spec.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// While one lives, LibTorch's autocast is on for what its thread computes on a type of device: products and
/// convolutions in bfloat16, what is sensitive to roundings in float32. Gradients get the type of the parameters, so
/// float32. They nest. The outermost drops the rounded parameters that LibTorch keeps for those inside, which the next
/// step of an optimizer makes stale.
class Autocast {
 public:
  explicit Autocast(at::DeviceType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType type_;
  const bool was_on_;
  const at::ScalarType numbers_before_;
};

/// What a model makes of a batch, in training and in evaluation: computed in `precision`, and float32 in either, as the
/// loss needs it.
at::Tensor logits_of(Model& model, const at::Tensor& input, protocol::Precision precision);

/// Fails with: unsupported (the device is neither a processor nor one of CUDA).
Result<void> check_precision(protocol::Precision precision, at::Device device);

}  // namespace weir::training
