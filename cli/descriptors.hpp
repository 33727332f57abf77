#pragma once

#include <cstdint>

namespace weir::cli {

/// How many file descriptors this process may have open. Every connection takes one.
struct DescriptorLimits {
  std::uint64_t now = 0;       ///< what holds
  std::uint64_t possible = 0;  ///< what the process may raise it to
};

DescriptorLimits descriptor_limits();

/// Raises the limit to what is possible. Gives what holds then. For programs that serve many: the usual limit of 1,024
/// is made for programs that call select(), and is too low for them.
std::uint64_t raise_descriptor_limit();

/// How many of its descriptors a head gives to HTTP connections: half, since links, logs and the store need some too.
inline std::uint64_t http_connections(std::uint64_t descriptors) { return descriptors / 2; }

}  // namespace weir::cli
