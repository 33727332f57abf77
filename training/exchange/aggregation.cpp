#include "training/exchange/aggregation.hpp"

#include <array>

namespace weir::training {

std::optional<Aggregation> aggregation_named(std::string_view name) {
  constexpr std::array<std::string_view, 5> names{"mean", "sum", "min", "max", "weighted"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Aggregation>(i);
  }
  return std::nullopt;
}

std::optional<std::string> aggregation_misfit(Aggregation aggregation, const compressors::Compression& compression) {
  const auto traits = compression.compressor->traits();
  if (aggregation == Aggregation::mean) return std::nullopt;
  if (traits.votes) return "the workers agree on signs, each with one vote";
  if (aggregation != Aggregation::min && aggregation != Aggregation::max) return std::nullopt;
  const bool plain = traits.lossless && traits.passes == compressors::Passes{compressors::Reduction::sum};
  if (plain && compression.memory->name() == "none") return std::nullopt;
  return "it is found among uncompressed values only, which compressor \"none\" sends";
}

}  // namespace weir::training
