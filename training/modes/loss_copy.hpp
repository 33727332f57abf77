#pragma once

#include <ATen/core/Tensor.h>

#include "training/side_stream.hpp"

namespace weir::training {

/// Copies losses from a device to the host, in a stream of its own, so that the backward pass can be begun while the
/// forward pass is still computed. Used by one thread.
///
///     begin(loss)     the loss, one float32, is in the calling thread's current stream; it must exist until
///     wait()          returns it, once it has been computed and copied
///
/// Exceptions of LibTorch go through.
class LossCopy {
 public:
  explicit LossCopy(at::Device device);

  void begin(const at::Tensor& loss);
  float wait() const;

 private:
  SideStream beside_;
  const at::Tensor value_;  ///< in the host's memory
};

}  // namespace weir::training
