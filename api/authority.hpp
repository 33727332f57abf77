#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::api {

/// The name and port of a URL or a Host field.
struct Authority {
  std::string host;  ///< lower case, without brackets
  std::string port;  ///< or ""
};

/// Parses "name", "name:port", "1.2.3.4:port" or "[::1]:port"; returns nothing if `text` is none of these.
std::optional<Authority> parse_authority(std::string_view text);

std::string to_lower(std::string_view text);

}  // namespace weir::api
