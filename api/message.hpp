#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::api {

/// Refuses a header that two readers could read differently, before anything reads it: a line that ends in a bare LF or
/// CR, a continued line (obs-fold), a control character, blanks before a colon. `raw` ends with the empty line.
/// Fails with: malformed.
Result<void> check_framing(std::string_view raw);

/// A time as the value of a header field such as Date (RFC 9110, 5.6.7).
std::string http_date(std::chrono::system_clock::time_point time);

}  // namespace weir::api
