#include "compressors/memory.hpp"

#include "base/errc.hpp"

namespace weir::compressors {

Result<void> Memory::average_dense(at::Tensor&, const Round&) { return {}; }

Result<void> Memory::restore(std::span<const NamedTensor> state) {
  if (state.empty()) return {};
  return Error(Errc::malformed, "memory '" + std::string(name()) + "' keeps no state, but the checkpoint has some");
}

}  // namespace weir::compressors
