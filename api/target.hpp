#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace weir::api {

/// A request target, percent-decoded once: "/api/v1/jobs?limit=5" is {"api","v1","jobs"} and {limit: 5}.
struct Target {
  std::string path;                                        ///< as sent, without the query
  std::vector<std::string> segments;                       ///< of the path; none for "/"
  std::vector<std::pair<std::string, std::string>> query;  ///< in order

  std::optional<std::string_view> find(std::string_view name) const;

  /// A whole number in the query. Fails with: malformed (not a number, out of range; the text has the range).
  Result<std::int64_t> integer(std::string_view name, std::int64_t fallback, std::int64_t min, std::int64_t max) const;

  /// A finite number in the query, or nothing. Fails with: malformed.
  Result<std::optional<double>> number(std::string_view name) const;
};

/// Parses a target in origin form (a path that begins with "/"); other forms are refused. Fails with: malformed (a
/// character that a URI cannot have, bad percent-encoding, text that is not UTF-8, NUL, backslash, an empty, "." or
/// ".." segment, more than 64 segments or parameters).
Result<Target> parse_target(std::string_view raw);

/// Undoes percent-encoding once. Fails with: malformed.
Result<std::string> percent_decode(std::string_view text);

/// Percent-encodes everything but letters, digits and "-._~".
std::string percent_encode(std::string_view text);

}  // namespace weir::api
