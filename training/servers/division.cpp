#include "training/servers/division.hpp"

#include <algorithm>
#include <numeric>

namespace weir::training::servers {

std::vector<std::vector<std::uint32_t>> divide(std::span<const std::uint64_t> entries, std::uint32_t servers) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return entries[a] > entries[b]; });
  std::vector<std::vector<std::uint32_t>> parts(servers);
  std::vector<std::uint64_t> sizes(servers, 0);
  for (const auto tensor : order) {
    const auto least = std::ranges::min_element(sizes) - sizes.begin();
    parts[static_cast<std::size_t>(least)].push_back(tensor);
    sizes[static_cast<std::size_t>(least)] += entries[tensor];
  }
  for (auto& part : parts) std::ranges::sort(part);
  return parts;
}

std::vector<std::vector<std::uint32_t>> divide(std::span<const NamedTensor> parameters, std::uint32_t servers) {
  std::vector<std::uint64_t> entries;
  for (const auto& parameter : parameters) entries.push_back(static_cast<std::uint64_t>(parameter.tensor.numel()));
  return divide(entries, servers);
}

}  // namespace weir::training::servers
