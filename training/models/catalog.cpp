#include "training/models/catalog.hpp"

#include <torch/utils.h>

#include <mutex>

#include "training/models/list.hpp"

namespace weir::training {

const ModelCatalog& models() {
  static const auto catalog = ModelCatalog({.kind = "model"}).add_all(NetworkTypes{}).add_all(StoredModelTypes{});
  return catalog;
}

Result<std::unique_ptr<Model>> make_model(std::string_view name, const nlohmann::json& params,
                                          const ExampleShape& shape, std::uint64_t seed) {
  static std::mutex generator;
  const std::lock_guard lock(generator);
  torch::manual_seed(seed);
  return models().make(name, params, shape);
}

std::vector<NamedTensor> state_of(const Model& model) {
  auto state = model.parameters();
  for (auto& buffer : model.buffers()) state.push_back(std::move(buffer));
  return state;
}

}  // namespace weir::training
