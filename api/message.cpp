#include "api/message.hpp"

#include <array>
#include <cstdio>
#include <ctime>

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

std::string http_date(std::chrono::system_clock::time_point time) {
  // The names are not those of the user's language, which strftime() would take.
  static constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(time));
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                 days.at(static_cast<std::size_t>(utc.tm_wday)), utc.tm_mday,
                                 months.at(static_cast<std::size_t>(utc.tm_mon)), utc.tm_year + 1900, utc.tm_hour,
                                 utc.tm_min, utc.tm_sec);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace weir::api
