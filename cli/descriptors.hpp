#pragma once

#include <cstdint>

namespace weir::cli {

/// How many file descriptors this process may have open. Every connection takes one.
struct DescriptorLimits {
  std::uint64_t now = 0;       ///< the limit in effect
  std::uint64_t possible = 0;  ///< the limit to which the process may raise it
};

DescriptorLimits descriptor_limits();

/// Raises the limit as far as possible and returns the new one. For programs with many connections: the usual limit of
/// 1,024 is meant for programs that call select(), and is too low for them.
std::uint64_t raise_descriptor_limit();

/// How many of its descriptors a head uses for HTTP connections: half, since links, logs and the store need some too.
inline std::uint64_t http_connections(std::uint64_t descriptors) { return descriptors / 2; }

}  // namespace weir::cli
