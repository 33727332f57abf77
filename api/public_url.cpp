#include "api/public_url.hpp"

#include "api/authority.hpp"
#include "base/errc.hpp"

namespace weir::api {

Result<PublicUrl> PublicUrl::parse(std::string_view text) {
  const Error unclear{Errc::invalid_argument, "\"" + std::string(text) +
                                                  "\" is not where browsers find a head: say https:// or http:// and a "
                                                  "name, perhaps a port, and no path, as in https://weir.example"};
  const auto colon = text.find("://");
  if (colon == std::string_view::npos) return unclear;
  PublicUrl url;
  url.scheme = to_lower(text.substr(0, colon));
  if (url.scheme != "https" && url.scheme != "http") return unclear;
  auto rest = text.substr(colon + 3);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  for (const char c : rest)
    if (c <= ' ' || c >= 0x7f || std::string_view("/?#@\\\"<>").find(c) != std::string_view::npos) return unclear;
  auto authority = parse_authority(rest);
  if (!authority) return unclear;
  url.host = std::move(authority->host);
  url.port = authority->port.empty() ? (url.https() ? "443" : "80") : std::move(authority->port);
  return url;
}

std::string PublicUrl::origin() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  const bool usual = port == (https() ? "443" : "80");
  return scheme + "://" + name + (usual ? "" : ":" + port);
}

bool PublicUrl::is_at(std::string_view name, std::string_view port_given) const {
  return name == host && (port_given.empty() ? port == (https() ? "443" : "80") : port == port_given);
}

}  // namespace weir::api
