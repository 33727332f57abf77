#include "cli/place.hpp"

#include <algorithm>

#include "base/errc.hpp"

namespace weir::cli {

Result<Place> Place::parse(std::string_view address) {
  const Error unclear{Errc::invalid_argument, "\"" + std::string(address) +
                                                  "\" is no address; give --address HOST:PORT, or https://HOST where a "
                                                  "proxy does TLS"};
  Place place;
  std::string_view rest = address;
  if (rest.starts_with("https://")) {
    place.tls = true;
    place.port = "443";
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return unclear;
    place.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    const auto end = std::min(rest.find(':'), rest.size());
    place.host = rest.substr(0, end);
    rest.remove_prefix(end);
  }
  if (rest.starts_with(':')) {
    place.port = rest.substr(1);
  } else if (!rest.empty()) {
    return unclear;
  }
  const bool number = !place.port.empty() && place.port.find_first_not_of("0123456789") == std::string::npos;
  if (place.host.empty() || place.host.find_first_of("/?#@ ") != std::string::npos || !number) return unclear;
  return place;
}

std::string Place::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return tls && port == "443" ? name : name + ":" + port;
}

}  // namespace weir::cli
