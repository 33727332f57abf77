#pragma once

#include <string>
#include <string_view>

namespace weir {

/// The text without anything that a terminal interprets: control characters other than line ends and tabs (C0, DEL, C1)
/// and bytes that are not UTF-8 become visible, as \x1b. Names, reasons and log lines come from others, and must not
/// move the cursor, set the title or answer for the user.
std::string printable(std::string_view text);

/// The same for one line or one cell of a table: line ends and tabs become visible, too.
std::string printable_line(std::string_view text);

/// JSON text without anything that a terminal interprets. It remains the same document: characters that JSON allows
/// unescaped in strings (DEL, C1) become \u007f, \u0080, ...
std::string printable_json(std::string_view text);

}  // namespace weir
