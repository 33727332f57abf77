#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "protocol/safetensors.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// Whether the file format has numbers of the tensor's type.
bool can_be_stored(const at::Tensor& tensor);

/// Collects tensors and writes them to a safetensors file.
class TensorFile {
 public:
  /// Adds the tensors under `prefix` + name. They are not copied, so they must not change before write().
  void add(const std::string& prefix, const std::vector<NamedTensor>& tensors);

  /// Returns the file. Fails with: unsupported (an element type that safetensors does not know), invalid_argument (a
  /// name twice).
  Result<Bytes> write(const std::map<std::string, std::string>& metadata) const;

 private:
  std::vector<NamedTensor> tensors_;
};

/// Copies of the tensors whose names begin with `prefix`; the prefix is removed from the names.
std::vector<NamedTensor> tensors_under(const protocol::Safetensors& file, std::string_view prefix);

/// Overwrites each of `targets` with the tensor of that name under `prefix`; changes nothing on failure. Fails with:
/// conflict (a tensor is missing or has another shape or type, or the file has further tensors under `prefix`).
Result<void> load_into(const protocol::Safetensors& file, std::string_view prefix,
                       const std::vector<NamedTensor>& targets);

}  // namespace weir::training
