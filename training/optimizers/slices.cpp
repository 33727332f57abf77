#include "training/optimizers/slices.hpp"

namespace weir::training {

std::vector<Turn> turns_of(std::span<const at::Tensor> parameters, std::span<const ParameterRule> rules) {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto same = [&](const Turn& turn) { return !parameters[i].is_cpu() && rules[turn.front()] == rules[i]; };
    const auto found = std::ranges::find_if(turns, same);
    found == turns.end() ? turns.push_back({i}) : found->push_back(i);
  }
  return turns;
}

}  // namespace weir::training
