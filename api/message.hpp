#pragma once

#include <string_view>

#include "base/result.hpp"

namespace weir::api {

/// Refuses a header that two readers could read differently, before anything reads it: a line that ends in a bare LF or
/// CR, a continued line (obs-fold), a control character, blanks before a colon. `raw` ends with the empty line.
/// Fails with: malformed.
Result<void> check_framing(std::string_view raw);

}  // namespace weir::api
