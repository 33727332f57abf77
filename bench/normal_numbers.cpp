#include "bench/normal_numbers.hpp"

#include <bit>
#include <cmath>
#include <random>

namespace weir::bench {

std::vector<float> normal_numbers(std::size_t count, std::uint32_t rank) {
  std::mt19937 random(rank);
  std::normal_distribution<float> normal(0, 1e-3F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

void keep_finite(std::vector<float>& values, std::uint32_t round, std::size_t ranks) {
  const auto every = static_cast<std::uint32_t>(64 / std::bit_width(ranks));
  if ((round + 1) % every != 0) return;
  const auto scale = static_cast<float>(std::pow(static_cast<double>(ranks), -static_cast<double>(every)));
  for (float& value : values) value *= scale;
}

}  // namespace weir::bench
