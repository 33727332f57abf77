#include "api/http.hpp"

#include "base/ensure.hpp"

namespace weir::api {

std::optional<std::string_view> find(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return std::nullopt;
}

const std::string& Request::parameter(std::string_view name) const {
  const auto found = parameters.find(name);
  ensure(found != parameters.end(), "a handler asked for a parameter that its route does not have");
  return found->second;
}

}  // namespace weir::api
