#include "actors/menu.hpp"

#include "protocol/schema.hpp"

namespace weir::actors {

using nlohmann::json;

Result<json> complete_params(const json& schema, const json& params) {
  json complete = params.is_null() ? json::object() : params;
  const auto problems = protocol::check_and_complete(schema, complete, "/params");
  if (!problems.empty()) {
    return Error{Errc::invalid_argument, problems.front().pointer + ": " + problems.front().message};
  }
  return complete;
}

Error unknown_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  std::string text = "there is no " + std::string(kind) + " '" + std::string(name) + "'";
  if (const auto nearest = protocol::nearest_name(name, known); !nearest.empty()) {
    return {Errc::not_found, text + "; did you mean '" + nearest + "'?"};
  }
  text += "; there is";
  for (const auto& other : known) text += " " + other;
  return {Errc::not_found, text};
}

json no_params() { return {{"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}}; }

}  // namespace weir::actors
