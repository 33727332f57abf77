#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compressors/catalog.hpp"

namespace weir::training {

/// What an exchange makes of the ranks' values, entry by entry.
enum class Aggregation : std::uint8_t {
  mean,
  sum,
  min,
  max,
  weighted,  ///< the mean, each rank with the weight that its step says (Step::samples)
};

std::optional<Aggregation> aggregation_named(std::string_view name);

/// The reason why the payloads of a compression do not lead to it; nothing if they do. The head decides the same by the
/// catalog (protocol/aggregation.hpp).
std::optional<std::string> aggregation_misfit(Aggregation aggregation, const compressors::Compression& compression);

}  // namespace weir::training
