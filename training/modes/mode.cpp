#include "training/modes/mode.hpp"

#include "base/errc.hpp"

namespace weir::training {

Result<void> Mode::join(Replica& replica, collectives::Fabric& /*fabric*/) { return replica.make_exchange(); }

Result<void> Mode::restore(Replica&, std::span<const NamedTensor> common, std::span<const NamedTensor> own) {
  if (common.empty() && own.empty()) return {};
  return Error{Errc::malformed, "the checkpoint has a state for a training mode that keeps none"};
}

}  // namespace weir::training
