#include "compressors/sparsifiers/warmup.hpp"

#include <algorithm>
#include <cmath>

namespace weir::compressors {

double Warmup::length() const { return ratios.empty() ? epochs : static_cast<double>(ratios.size()); }

double Warmup::ratio(double base, double epoch) const {
  if (epoch >= length()) return base;
  const double stage = std::floor(std::max(epoch, 0.0));
  if (!ratios.empty()) return ratios[static_cast<std::size_t>(stage)];
  const double factor = coefficient.value_or(std::pow(base, 1 / (epochs + 1)));
  return std::max(std::pow(factor, stage + 1), base);
}

}  // namespace weir::compressors
