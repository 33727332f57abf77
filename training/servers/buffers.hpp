#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "training/models/model.hpp"

namespace weir::training::servers {

// The buffers of a model (running statistics), of which each worker has its own. Those of floats travel to the first
// server; the model's are their mean.

/// The number of bytes that append_buffers() appends.
std::uint64_t buffer_bytes(const Model& model);
void append_buffers(const Model& model, Bytes& out);

/// The mean of what the workers have sent last.
class MeanBuffers {
 public:
  explicit MeanBuffers(std::uint32_t workers) : of_(workers) {}

  /// Untrusted. Fails with: malformed (the length, or what is not finite).
  Result<void> take(std::uint32_t worker, BytesView bytes, const Model& model);
  /// Makes the model's buffers the mean; those of a worker that has sent none do not count.
  void put_into(const Model& model) const;

 private:
  std::vector<std::optional<std::vector<float>>> of_;  ///< by worker
};

}  // namespace weir::training::servers
