#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::api {

/// Where browsers find a head that stands behind a proxy: a scheme, a name and perhaps a port, no path.
struct PublicUrl {
  /// From "https://weir.example" or "http://10.0.0.7:8000". Fails with: invalid_argument.
  static Result<PublicUrl> parse(std::string_view text);

  bool https() const { return scheme == "https"; }
  /// As browsers write it: "https://weir.example", with the port only if it is not the scheme's own.
  std::string origin() const;
  /// Whether a Host of this name and port ("" if none was given) is the one of this address.
  bool is_at(std::string_view name, std::string_view port_given) const;

  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< lower case, without brackets
  std::string port;    ///< "443", if none was given the scheme's own
};

}  // namespace weir::api
