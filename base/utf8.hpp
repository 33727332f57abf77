#pragma once

#include <cstddef>
#include <string_view>

namespace weir {

/// Whether the bytes are UTF-8 throughout: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// The number of bytes at the end that begin a UTF-8 character without completing it: 0 to 3.
std::size_t unfinished_tail(std::string_view text);

}  // namespace weir
