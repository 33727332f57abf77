#pragma once

#include <cstdint>

#include "protocol/catalog.hpp"
#include "training/datasets/shape.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// The makers get the shape of the dataset's examples.
using ModelCatalog = protocol::Catalog<protocol::CatalogEntry<Model, const ExampleShape&>>;

/// All models.
const ModelCatalog& models();

/// Makes a model whose parameters are drawn from `seed`. Thread-safe: the calls run one at a time, because each seeds
/// LibTorch's global generator. Fails with: not_found, invalid_argument (parameters, or images that are too small for
/// the model).
Result<std::unique_ptr<Model>> make_model(std::string_view name, const nlohmann::json& params,
                                          const ExampleShape& shape, std::uint64_t seed);

}  // namespace weir::training
