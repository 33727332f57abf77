#include "training/servers/rule.hpp"

#include "base/errc.hpp"

namespace weir::training::servers {
namespace {

Error each_for_itself() { return {Errc::malformed, "a decision for all servers, where each decides for itself"}; }

}  // namespace

Result<std::vector<Decision>> PushRule::decided(std::uint64_t, std::span<const std::uint32_t>) {
  return each_for_itself();
}

Result<std::vector<Decision>> PushRule::late(std::uint64_t, std::uint32_t) { return each_for_itself(); }

}  // namespace weir::training::servers
