#include "cli/descriptors.hpp"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::cli {
namespace {

/// Upper bound if there is no hard limit: a table with as many entries as the kernel allows would be wasteful.
constexpr rlim_t enough = 1 << 20;

}  // namespace

DescriptorLimits descriptor_limits() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return {limit.rlim_cur, std::max(limit.rlim_cur, std::min(limit.rlim_max, enough))};
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = descriptor_limits().possible;
  if (limit.rlim_cur == before || ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return limit.rlim_cur;
  spdlog::warn("the limit of {} open files cannot be raised: {}", before, std::strerror(errno));
  return before;
}

}  // namespace weir::cli
