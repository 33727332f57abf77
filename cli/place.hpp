#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::cli {

/// The place of a head's API.
struct Place {
  /// Parses "HOST:PORT", "http://HOST:PORT" or "https://HOST[:PORT]", with or without a slash at the end; an IPv6
  /// address is in brackets. Fails with: invalid_argument.
  static Result<Place> parse(std::string_view address);

  /// The value of the Host field: "weir.example", "127.0.0.1:8265", "[::1]:8265".
  std::string authority() const;

  bool tls = false;
  std::string host;  ///< without brackets
  std::string port;
};

}  // namespace weir::cli
