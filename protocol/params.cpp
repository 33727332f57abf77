#include "protocol/params.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/ensure.hpp"

namespace weir::protocol {

using nlohmann::json;

json empty_schema() { return {{"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}}; }

json& declared(json& schema, std::string_view name) {
  const auto found = schema["properties"].find(name);
  ensure(found != schema["properties"].end(), "a parameter is spoken of that is not declared");
  return *found;
}

json described(json schema, std::string_view description) {
  if (!description.empty()) schema["description"] = description;
  return schema;
}

json number_schema(std::string_view type, const Range& range, std::string_view description) {
  json schema = described({{"type", type}}, description);
  if (!range.minimum.is_null()) schema["minimum"] = range.minimum;
  if (!range.exclusive_minimum.is_null()) schema["exclusiveMinimum"] = range.exclusive_minimum;
  if (!range.maximum.is_null()) schema["maximum"] = range.maximum;
  if (!range.exclusive_maximum.is_null()) schema["exclusiveMaximum"] = range.exclusive_maximum;
  if (!range.multiple_of.is_null()) schema["multipleOf"] = range.multiple_of;
  return schema;
}

json written_like(const Range& range, double value) {
  const std::array limits{&range.minimum, &range.exclusive_minimum, &range.maximum, &range.exclusive_maximum};
  const bool whole = std::ranges::any_of(limits, [](const json* limit) { return limit->is_number_integer(); });
  return whole && std::trunc(value) == value ? json(static_cast<std::int64_t>(value)) : json(value);
}

}  // namespace weir::protocol
