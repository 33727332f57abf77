#include "training/shapes.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "protocol/catalog.hpp"
#include "training/datasets/list.hpp"
#include "training/models/list.hpp"

namespace weir::training {
namespace {

/// The result of ask(options) for the type with that name.
template <class Product, class Types, class Ask>
Result<Product> ask_named(Types types, std::string_view kind, std::string_view name, const nlohmann::json& params,
                          Ask ask) {
  std::optional<Result<Product>> answer;
  types.for_each([&]<class T>() {
    if (T::type_name != name) return;
    const auto options = protocol::read_options<T>(params, {.kind = kind});
    if (options) {
      answer = ask.template operator()<T>(*options);
    } else {
      answer = options.error();
    }
  });
  if (answer) return std::move(*answer);
  return Error{Errc::not_found, "there is no " + std::string(kind) + " '" + std::string(name) + "'"};
}

}  // namespace

Result<std::vector<protocol::ParameterShape>> parameter_shapes(std::string_view model, const nlohmann::json& params,
                                                               const ExampleShape& shape) {
  using Shapes = std::vector<protocol::ParameterShape>;
  const auto of_network = [&]<class T>(const auto& options) -> Result<Shapes> {
    const auto network = T::network(options, shape);
    if (!network) return network.error();
    return shapes_of(*network);
  };
  const auto of_file = []<class T>(const auto& options) -> Result<Shapes> {
    if (auto good = T::check(options); !good) return good.error();
    return Shapes();
  };
  auto shapes = ask_named<Shapes>(NetworkTypes{}, "model", model, params, of_network);
  if (shapes || shapes.error().code != Errc::not_found) return shapes;
  return ask_named<Shapes>(StoredModelTypes{}, "model", model, params, of_file);
}

Result<DatasetShape> dataset_shape(std::string_view dataset, const nlohmann::json& params, std::string_view path) {
  return ask_named<DatasetShape>(
      DatasetTypes{}, "dataset", dataset, params,
      [&]<class T>(const auto& options) -> Result<DatasetShape> { return T::shape(options, path); });
}

Result<protocol::TrainingShape> training_shape(const protocol::JobSpec& spec) {
  const auto& wanted = spec.dataset.choice;
  const auto dataset = dataset_shape(wanted.name, wanted.params, spec.dataset.path.value_or(""));
  if (!dataset) return dataset.error();
  auto parameters = parameter_shapes(spec.model.name, spec.model.params, dataset->example);
  if (!parameters) return parameters.error();
  protocol::TrainingShape shape{std::move(*parameters), dataset->train_examples, {}};
  shape.classes = dataset->example.tokens == 0
                      ? static_cast<std::uint64_t>(dataset->example.classes)
                      : std::min(text_sections_max, dataset->train_examples.value_or(UINT64_MAX));
  return shape;
}

}  // namespace weir::training
