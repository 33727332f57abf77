#include "api/message.hpp"

#include "base/errc.hpp"

namespace weir::api {

Result<void> check_framing(std::string_view raw) {
  bool first = true;
  while (!raw.empty()) {
    const auto end = raw.find("\r\n");
    if (end == std::string_view::npos) return Error{Errc::malformed, "the header does not end in an empty line"};
    const auto line = raw.substr(0, end);
    raw.remove_prefix(end + 2);
    for (const char c : line)
      if ((c >= 0 && c < 0x20 && c != '\t') || c == 0x7f)
        return Error{Errc::malformed, "a control character in the header"};
    if (line.empty()) {
      if (first || !raw.empty()) return Error{Errc::malformed, "an empty line inside the header"};
      return {};
    }
    if (!first) {
      if (line.front() == ' ' || line.front() == '\t') return Error{Errc::malformed, "a continued header line"};
      const auto colon = line.find(':');
      if (colon == std::string_view::npos || colon == 0 || line.find_first_of(" \t") < colon)
        return Error{Errc::malformed, "a header line without a name and a colon"};
    }
    first = false;
  }
  return Error{Errc::malformed, "the header does not end in an empty line"};
}

}  // namespace weir::api
