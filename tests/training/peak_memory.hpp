#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace weir::training::testing {

/// The most bytes of memory that this process has had at once.
inline std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace weir::training::testing
