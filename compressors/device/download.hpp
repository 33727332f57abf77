#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "cuda/event.hpp"

namespace weir::compressors::device {

/// What kernels make of several tensors, which comes to the host together: of each a head, which is zeros before, and a
/// body. Comes in pieces, in the order of the tensors, the heads first. Fails as compressors/device.
class Download {
 public:
  /// Room beside a tensor for heads of that size and bodies of those sizes, in bytes.
  static Result<Download> make(const at::Tensor& beside, std::size_t head_bytes, std::span<const std::size_t> bodies);

  /// On the device; bodies are aligned to 16 bytes.
  std::byte* head(std::size_t i) const;
  std::byte* body(std::size_t i) const;

  /// Begins to bring down what has been put into the calling thread's current stream.
  Result<void> begin();

  /// Waits until head and body of a tensor are below.
  Result<void> wait(std::size_t i) const;
  const std::byte* head_below(std::size_t i) const;
  const std::byte* body_below(std::size_t i) const;
  /// The same, and copies the body to `to`, which has its size: while a piece is copied, the next ones come.
  Result<void> copy_body(std::size_t i, std::span<std::byte> to) const;

 private:
  struct Body {
    std::size_t begin = 0;
    std::size_t bytes = 0;
  };

  /// The event after which the byte there is below.
  const cuda::Event& come(std::size_t byte) const;

  std::size_t head_bytes_ = 0;
  std::vector<Body> bodies_;
  at::Tensor above_;
  at::Tensor below_;
  std::vector<cuda::Event> ends_;  ///< of the pieces
};

}  // namespace weir::compressors::device
