#include "compressors/memory.hpp"

#include "base/errc.hpp"
#include "compressors/memories/tensor_store.hpp"

namespace weir::compressors {

Peaks Memory::peaks(const Round&) const { return {}; }

const cuda::Bins* Memory::bins(const Round&) const { return nullptr; }

bool Memory::add_unsent(const Round& round, std::uint64_t first, std::span<const float> values) {
  const TensorStore* store = unsent();
  return store != nullptr && store->add(round, first, values);
}

Result<at::Tensor> Memory::compensate_dense(const at::Tensor& gradient, const Round& round) {
  return compensate(gradient, round);
}

Result<void> Memory::average_dense(at::Tensor&, const Round&) { return {}; }

Result<void> Memory::restore(std::span<const NamedTensor> state) {
  if (state.empty()) return {};
  return Error(Errc::malformed, "memory '" + std::string(name()) + "' keeps no state, but the checkpoint has some");
}

}  // namespace weir::compressors
