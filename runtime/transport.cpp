#include "runtime/transport.hpp"

#include <charconv>

#include "base/errc.hpp"

namespace weir::runtime {

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  const Error bad{Errc::invalid_argument, "\"" + std::string(text) + "\" is not HOST:PORT"};
  if (colon == std::string_view::npos || colon == 0) return bad;
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad;  // an IPv6 address without brackets: which colon is the port's?
  }
  Endpoint endpoint{std::string(host), 0};
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (host.empty() || digits.empty() || failed != std::errc{} || end != digits.data() + digits.size()) return bad;
  return endpoint;
}

std::string Endpoint::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace weir::runtime
