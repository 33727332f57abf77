#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::api {

/// The address of a head behind a proxy, for browsers: a scheme, a name and perhaps a port, no path.
struct PublicUrl {
  /// Parses "https://weir.example" or "http://10.0.0.7:8000". Fails with: invalid_argument.
  static Result<PublicUrl> parse(std::string_view text);

  bool https() const { return scheme == "https"; }
  /// The origin as browsers write it: "https://weir.example", with the port only if it is not the scheme's own.
  std::string origin() const;
  /// True if a Host field with this name and port ("" if none was given) means this address.
  bool is_at(std::string_view name, std::string_view port_given) const;

  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< lower case, without brackets
  std::string port;    ///< such as "443"; the scheme's own if none was given
};

}  // namespace weir::api
