#include "api/authority.hpp"

#include <algorithm>

namespace weir::api {

std::string to_lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

std::optional<Authority> parse_authority(std::string_view text) {
  Authority authority;
  std::string_view rest;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    authority.host = to_lower(text.substr(1, end - 1));
    rest = text.substr(end + 1);
  } else {
    const auto colon = text.find(':');
    authority.host = to_lower(text.substr(0, colon));
    rest = colon == std::string_view::npos ? "" : text.substr(colon);
  }
  if (authority.host.empty()) return std::nullopt;
  if (rest.empty()) return authority;
  if (rest.front() != ':' || rest.size() < 2 || rest.size() > 6) return std::nullopt;
  authority.port = rest.substr(1);
  if (authority.port.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return authority;
}

}  // namespace weir::api
