#include "compressors/memory.hpp"

#include <utility>

#include "base/errc.hpp"
#include "compressors/memories/tensor_store.hpp"

namespace weir::compressors {

Result<void> Memory::compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                                    std::vector<at::Tensor>& out) {
  out.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    auto compensated = compensate(gradients[i], rounds[i]);
    if (!compensated) return compensated.error();
    out.push_back(std::move(*compensated));
  }
  return {};
}

Result<at::Tensor> Memory::compensate_by_all(const at::Tensor& gradient, const Round& round) {
  std::vector<at::Tensor> compensated;
  auto done = compensate_all(std::span(&gradient, 1), std::span(&round, 1), compensated);
  return done ? Result<at::Tensor>(std::move(compensated.front())) : done.error();
}

Result<void> Memory::update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                                std::span<at::Tensor> means) {
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (auto updated = update(rounds[i], sent[i], means[i]); !updated) return updated;
  }
  return {};
}

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

Result<void> Memory::average_dense_all(std::span<at::Tensor> means, std::span<const Round> rounds) {
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (auto turned = average_dense(means[i], rounds[i]); !turned) return turned;
  }
  return {};
}

Result<void> Memory::restore(std::span<const NamedTensor> state) {
  if (state.empty()) return {};
  return Error(Errc::malformed, "memory '" + std::string(name()) + "' keeps no state, but the checkpoint has some");
}

}  // namespace weir::compressors
