#include "training/servers/rule.hpp"

#include "base/errc.hpp"

namespace weir::training::servers {

Result<std::vector<Decision>> PushRule::decided(std::uint64_t, std::span<const std::uint32_t>) {
  return Error{Errc::malformed, "a decision for all servers, where each decides for itself"};
}

}  // namespace weir::training::servers
