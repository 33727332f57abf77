#include "compressors/memories/misfit.hpp"

#include <cmath>

namespace weir::compressors {

std::optional<std::string> no_residual(const Compressor& compressor) {
  const Traits traits = compressor.traits();
  if (traits.lossless) return "it sends everything, so that no residual is left";
  // If the encoding error can be larger than the residual, the residual grows from round to round.
  constexpr std::uint64_t entries = 1 << 20;
  const double bound = compressor.error_bound(entries, {.epoch = 1e9});
  if (traits.votes && std::isinf(bound)) {
    return "the ranks agree on signs, and what each has sent has no size that could be taken off";
  }
  if (bound > 1) {
    return "its error can be larger than what it encodes (" +
           (std::isinf(bound) ? std::string("without a bound") : std::to_string(bound) + " times its squared norm") +
           "), so that a residual would grow without limit";
  }
  return std::nullopt;
}

std::optional<std::string> no_mean_residual(const Compressor& compressor) {
  if (auto reason = no_residual(compressor)) return reason;
  if (compressor.traits().votes) return "the ranks agree on signs, so that there is no mean to reckon with";
  return std::nullopt;
}

std::optional<std::string> no_differences(const Traits& compressor) {
  if (compressor.owns_momentum) return "it has a momentum of its own, and the workers' optimizers have applied theirs";
  if (compressor.votes) return "a majority of signs does not tell how far models are apart";
  return std::nullopt;
}

std::optional<std::string> no_differences(const MemoryTraits& memory) {
  if (!memory.owns_momentum && !memory.replaces_momentum) return std::nullopt;
  return "it applies momentum to gradients, and the workers' optimizers have applied theirs";
}

}  // namespace weir::compressors
