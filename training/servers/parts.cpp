#include "training/servers/parts.hpp"

#include <cstring>
#include <utility>

#include "compressors/flat.hpp"

namespace weir::training::servers {

Bytes part_of(std::span<const NamedTensor> tensors) {
  Bytes body;
  for (const auto& [name, tensor] : tensors) append(body, std::as_bytes(compressors::flat(std::as_const(tensor))));
  return body;
}

Result<void> take_part(Reader& body, Model& model, std::span<const std::uint32_t> parameters) {
  const auto all = model.parameters();
  for (const auto parameter : parameters) {
    at::Tensor tensor = all[parameter].tensor.detach();
    const auto values = body.bytes(tensor.nbytes());
    if (!values) return values.error().within("parameter " + all[parameter].name);
    std::memcpy(tensor.data_ptr<float>(), values->data(), values->size());
  }
  return body.end();
}

}  // namespace weir::training::servers
