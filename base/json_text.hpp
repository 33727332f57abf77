#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.hpp"

namespace weir {

inline constexpr std::size_t json_depth_max = 64;

/// Parses a text that comes from outside, in time that grows with its length only (nlohmann's parser with a callback
/// looks at all values of an array again after each object in it). Parsers differ on which of two equal keys of an
/// object counts, so a text with such is refused. Fails with malformed, whose context completes a sentence about the
/// text: "is not JSON: ...", "is nested deeper than 64 levels", "has the key "a" twice in one object".
Result<nlohmann::json> parse_json_text(std::string_view text);

}  // namespace weir
