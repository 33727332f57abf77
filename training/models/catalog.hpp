#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "protocol/catalog.hpp"
#include "training/datasets/shape.hpp"
#include "training/models/graph_model.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// A model in the catalog, made for the examples of a dataset. Beside what protocol::CatalogEntry asks for, its class
/// has
///
///     static Result<Network> network(const Options& options, const ExampleShape& shape);
///
/// and no make(): the network is all that there is to know. A model that only a file describes has, in its place,
///
///     static Result<void> check(const Options& options);  // what can be said without the file
///     static Result<std::unique_ptr<Model>> make(const Options& options, const ExampleShape& shape);
///
/// A network's parameters are drawn from the generator.
struct ModelEntry : protocol::CatalogEntry<Model, const ExampleShape&, const at::Generator&> {
  template <class M>
  static ModelEntry of(const protocol::CatalogWords& words) {
    return {CatalogEntry{std::string(M::type_name), std::string(M::summary),
                         [] { return protocol::params_of<M>().schema(); },
                         [words](const nlohmann::json& params, const ExampleShape& shape,
                                 const at::Generator& random) -> Result<std::unique_ptr<Model>> {
                           const auto options = protocol::read_options<M>(params, words);
                           if (!options) return options.error();
                           if constexpr (requires { M::make(*options, shape); }) {
                             return M::make(*options, shape);
                           } else {
                             auto network = M::network(*options, shape);
                             if (!network) return network.error();
                             return std::make_unique<GraphModel>(std::move(*network), random);
                           }
                         }}};
  }
};

using ModelCatalog = protocol::Catalog<ModelEntry>;

/// All models.
const ModelCatalog& models();

/// Makes a model whose parameters are drawn from `seed`, the same on every device. LibTorch's global generators, of
/// which a training may draw at the same time, stay as they are. Thread-safe. Fails with: not_found, invalid_argument
/// (parameters, or images that are too small for the model), exhausted (the device's memory), internal (the device),
/// and with what TorchScript::make fails with.
Result<std::unique_ptr<Model>> make_model(std::string_view name, const nlohmann::json& params,
                                          const ExampleShape& shape, std::uint64_t seed, at::Device device = at::kCPU);

}  // namespace weir::training
