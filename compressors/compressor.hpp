#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// What a compressor may know of the tensor and the round. Randomness and schedules are functions of these alone, so a
/// round can be repeated bit for bit.
struct Round {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;     ///< optimizer steps done before this one
  double epoch = 0;           ///< passes over the data done, with fraction: warm-up schedules
  std::uint32_t tensor = 0;   ///< position of the tensor in the model
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
};

/// How the payloads of the ranks are brought together.
enum class Reduction : std::uint8_t {
  sum,     ///< payloads are arrays of float whose sum decodes to the sum: all-reduce
  gather,  ///< each rank's payload is decoded on its own, in rank order: all-gather
};

struct Traits {
  Reduction reduction = Reduction::gather;
  bool biased = false;  ///< needs a memory to converge
};

/// Encodes one tensor's gradient for the wire. Owned by the exchange of one trainer, one object for all its tensors;
/// called by one thread at a time. Stateless: what lasts between rounds lives in a Memory.
class Compressor {
 public:
  virtual ~Compressor() = default;

  virtual Traits traits() const = 0;

  /// Appends the encoding of `gradient` (float32, contiguous, any shape) to `out`.
  /// Fails with: invalid_argument (NaN or infinity, naming the tensor's position).
  virtual Result<void> encode(const at::Tensor& gradient, const Round& round, Bytes& out) = 0;

  /// Adds the decoded tensor to `sum` (float32, contiguous, the gradient's shape). The payload is untrusted.
  /// Fails with: malformed, unsupported.
  virtual Result<void> decode_add(BytesView payload, at::Tensor& sum) = 0;
};

}  // namespace weir::compressors
