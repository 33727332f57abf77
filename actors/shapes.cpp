#include "actors/shapes.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "actors/datasets/list.hpp"
#include "actors/models/list.hpp"
#include "base/errc.hpp"

namespace weir::actors {
namespace {

/// The result of `ask` for the type with that name.
template <class Product, class Types, class Ask>
Result<Product> ask_named(Types types, std::string_view kind, std::string_view name, Ask ask) {
  std::optional<Result<Product>> answer;
  types.for_each([&]<class T>() {
    if (T::type_name == name) answer = ask.template operator()<T>();
  });
  if (answer) return std::move(*answer);
  return Error{Errc::not_found, "there is no " + std::string(kind) + " '" + std::string(name) + "'"};
}

}  // namespace

Result<std::vector<protocol::ParameterShape>> parameter_shapes(std::string_view model, const nlohmann::json& params,
                                                               const ExampleShape& shape) {
  return ask_named<std::vector<protocol::ParameterShape>>(ModelTypes{}, "model", model,
                                                          [&]<class T>() { return T::parameters(params, shape); });
}

Result<DatasetShape> dataset_shape(std::string_view dataset, const nlohmann::json& params, std::string_view path) {
  return ask_named<DatasetShape>(DatasetTypes{}, "dataset", dataset,
                                 [&]<class T>() -> Result<DatasetShape> { return T::shape(params, path); });
}

Result<protocol::TrainingShape> training_shape(const protocol::JobSpec& spec) {
  const auto& wanted = spec.dataset.choice;
  const auto dataset = dataset_shape(wanted.name, wanted.params, spec.dataset.path.value_or(""));
  if (!dataset) return dataset.error();
  auto parameters = parameter_shapes(spec.model.name, spec.model.params, dataset->example);
  if (!parameters) return parameters.error();
  return protocol::TrainingShape{std::move(*parameters), dataset->train_examples};
}

}  // namespace weir::actors
