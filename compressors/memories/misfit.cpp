#include "compressors/memories/misfit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weir::compressors {

std::optional<std::string> no_residual(const Compressor& compressor) {
  const Traits traits = compressor.traits();
  if (traits.lossless) return "it sends everything, so that no residual is left";
  // If the encoding error can be larger than the residual, the residual grows from round to round. Of some compressors
  // it becomes the larger the more entries a tensor has: what fits has to fit the largest.
  constexpr std::uint64_t entries = std::numeric_limits<std::uint32_t>::max();
  const double bound = compressor.error_bound(entries, {.epoch = 1e9});
  if (traits.votes && std::isinf(bound)) {
    return "the ranks agree on signs, and what each has sent has no size that could be taken off";
  }
  // An unbiased one with a bound of 1 adds the square of each gradient to that of the residual, in expectation.
  const bool grows = traits.biased ? bound > 1 : bound >= 1;
  if (grows) {
    return "its error can be larger than what it encodes, so that a residual would grow without limit";
  }
  return std::nullopt;
}

std::optional<std::string> no_mean_residual(const Compressor& compressor) {
  if (auto reason = no_residual(compressor)) return reason;
  const Traits traits = compressor.traits();
  if (traits.votes) return "the ranks agree on signs, so that there is no mean to reckon with";
  const auto is_rounded = [](Reduction it) { return it == Reduction::sum_fp16 || it == Reduction::sum_bf16; };
  if (std::ranges::any_of(traits.passes, is_rounded)) {
    return "its sums are rounded at every rank that they pass, and nobody keeps what that leaves out of the mean";
  }
  return std::nullopt;
}

bool owners_keep_residual(const Compressor& compressor) {
  const bool gathers = std::ranges::count(compressor.traits().passes, Reduction::gather) > 0;
  return gathers && !no_residual(compressor);
}

std::optional<std::string> no_owners(const Traits& compressor) {
  if (compressor.fits_owners()) return std::nullopt;
  return "the mean of its payloads cannot be encoded like them, because they come of several passes, depend on what "
         "was sent before, or are scaled by what they leave out";
}

std::optional<std::string> no_regions(const Traits& compressor) {
  if (compressor.fits_split()) return std::nullopt;
  return "the owners of regions add up sums and entries that a compressor has chosen, and what this one sends is "
         "neither";
}

std::optional<std::string> no_hops(const Compressor& compressor) {
  const Traits traits = compressor.traits();
  if (!traits.fits_hops()) {
    if (traits.owns_momentum) return "its momentum is in what a worker has not sent, and over hops all of it is sent";
    if (traits.votes) return "the ranks agree on signs, and the sign of a sum of signs is no vote";
    if (traits.sparse) return "it sends some entries, and those of several workers are others in each of their sums";
    return "sums of what workers have cannot be encoded like it, because payloads come of several passes or depend on "
           "what was sent before";
  }
  const bool gathered = std::ranges::count(traits.passes, Reduction::gather) > 0;
  return gathered && !traits.lossless ? no_residual(compressor) : std::nullopt;
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

std::optional<std::string> no_neighbours(const Compressor& compressor) {
  const Traits traits = compressor.traits();
  if (const auto reason = no_differences(traits)) return reason;
  if (traits.passes.size() > 1) return "it takes several passes, of which all workers need the results";
  if (std::isfinite(compressor.error_bound(1'000'000, {.epoch = 1e9}))) return std::nullopt;
  return "nothing limits how far what it sends is from what it stands for";
}

std::optional<std::string> no_pushes(const Traits& compressor) {
  if (compressor.votes) return "signs of one worker are no majority";
  if (compressor.owns_momentum) return "servers encode differences between models, which have no momentum";
  const auto is_summed = [](Reduction reduction) {
    return reduction != Reduction::max && reduction != Reduction::gather;
  };
  if (compressor.passes.size() > 1 && std::ranges::any_of(compressor.passes, is_summed)) {
    return "its rounds take several passes, in which all workers have to take part together";
  }
  if (compressor.stateful || std::ranges::count(compressor.passes, Reduction::gather) > 1) {
    return "what it keeps between rounds would have to be that of all workers";
  }
  return std::nullopt;
}

std::optional<std::string> no_pushes(const MemoryTraits& memory) {
  if (memory.changes_mean || memory.reckons_with_mean) return "it reckons with the mean of all workers";
  return std::nullopt;
}

}  // namespace weir::compressors
