#pragma once

#include <string>
#include <string_view>

namespace weir::cli {

/// The text without anything that a terminal obeys: control characters other than line ends and tabs (C0, DEL, C1) and
/// bytes that are not UTF-8 become visible, as \x1b. Names, reasons and log lines come from elsewhere, and must not
/// move the cursor, set the title or answer for the user.
std::string printable(std::string_view text);

/// The same for one line or one cell of a table: line ends and tabs become visible, too.
std::string printable_line(std::string_view text);

/// JSON text without anything that a terminal obeys. It stays the same document: what JSON lets stand in strings as it
/// is (DEL, C1) becomes \u007f, \u0080, ...
std::string printable_json(std::string_view text);

}  // namespace weir::cli
