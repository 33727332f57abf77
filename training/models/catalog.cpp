#include "training/models/catalog.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "base/errc.hpp"
#include "training/device.hpp"
#include "training/models/convolutions.hpp"
#include "training/models/list.hpp"
#include "training/thrown.hpp"

namespace weir::training {

const ModelCatalog& models() {
  static const auto catalog = ModelCatalog({.kind = "model"}).add_all(NetworkTypes{}).add_all(StoredModelTypes{});
  return catalog;
}

Result<std::unique_ptr<Model>> make_model(std::string_view name, const nlohmann::json& params,
                                          const ExampleShape& shape, std::uint64_t seed, at::Device device) {
  if (device.is_cpu()) (void)leaves_out_onednn();
  auto model = models().make(name, params, shape, at::detail::createCPUGenerator(seed));
  if (!model || device.is_cpu()) return model;
  std::uint64_t bytes = 0;
  for (const auto& [parameter, tensor] : (*model)->parameters()) bytes += tensor.nbytes();
  const std::string all = "the " + std::to_string(bytes) + " bytes of the model's parameters";
  try {
    (*model)->move_to(device);
  } catch (const c10::OutOfMemoryError& thrown) {
    return too_little_memory(own_gpu(), all, thrown);
  } catch (const std::exception& thrown) {
    return Error{Errc::internal, device.str() + " does not take " + all + ": " + reason_of(thrown)};
  }
  return model;
}

std::vector<NamedTensor> Model::statistics() const {
  auto list = buffers();
  std::erase_if(list, [](const NamedTensor& buffer) { return buffer.tensor.scalar_type() != at::kFloat; });
  return list;
}

Result<void> expect_alike(std::span<const NamedTensor> now, std::span<const NamedTensor> before) {
  const auto alike = [](const NamedTensor& one, const NamedTensor& other) {
    return one.name == other.name && one.tensor.sizes() == other.tensor.sizes() &&
           one.tensor.scalar_type() == other.tensor.scalar_type();
  };
  const auto differ = std::ranges::mismatch(now, before, alike);
  if (differ.in1 == now.end() && differ.in2 == before.end()) return {};
  const auto& name = differ.in2 != before.end() ? differ.in2->name : differ.in1->name;
  return Error{Errc::conflict, "the module has replaced \"" + name + "\" by a tensor of another shape or type"};
}

std::vector<NamedTensor> state_of(const Model& model) {
  auto state = model.parameters();
  for (auto& buffer : model.buffers()) state.push_back(std::move(buffer));
  return state;
}

}  // namespace weir::training
