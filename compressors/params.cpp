#include "compressors/params.hpp"

#include "base/errc.hpp"
#include "protocol/schema.hpp"

namespace weir::compressors {

Result<nlohmann::json> checked_params(std::string_view owner, const nlohmann::json& schema, nlohmann::json params) {
  if (params.is_null()) params = nlohmann::json::object();
  const auto problems = protocol::check_and_complete(schema, params);
  if (problems.empty()) return params;
  std::string what = "parameters of '" + std::string(owner) + "'";
  for (const auto& problem : problems) {
    what += (&problem == &problems.front() ? ": " : "; ") + (problem.pointer.empty() ? "" : problem.pointer + " ") +
            problem.message;
  }
  return Error(Errc::invalid_argument, what);
}

nlohmann::json number_schema(std::string_view type, const Range& range, std::string_view description) {
  nlohmann::json schema = {{"type", type}, {"description", description}};
  if (range.minimum) schema["minimum"] = *range.minimum;
  if (range.exclusive_minimum) schema["exclusiveMinimum"] = *range.exclusive_minimum;
  if (range.maximum) schema["maximum"] = *range.maximum;
  return schema;
}

}  // namespace weir::compressors
