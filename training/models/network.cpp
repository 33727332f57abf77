#include "training/models/network.hpp"

#include <limits>

namespace weir::training {

std::int64_t entries_of(const std::vector<std::int64_t>& extents) {
  std::int64_t product = 1;
  for (const auto extent : extents) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::numeric_limits<std::int64_t>::max();
  }
  return product;
}

std::int64_t entries_of(const Network& network) {
  std::int64_t sum = 0;
  for (const auto& parameter : network.parameters) sum += entries_of(parameter.shape.extents);
  return sum;
}

std::vector<protocol::ParameterShape> shapes_of(const Network& network) {
  std::vector<protocol::ParameterShape> list;
  list.reserve(network.parameters.size());
  for (const auto& parameter : network.parameters) list.push_back(parameter.shape);
  return list;
}

}  // namespace weir::training
