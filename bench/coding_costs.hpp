#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/layers.hpp"
#include "bench/scaling_cell.hpp"
#include "compressors/catalog.hpp"
#include "training/exchange/planner.hpp"

namespace weir::bench {

/// What it takes to encode the gradients of a model with a compressor and its memory, with their defaults and after any
/// warm-up.
class CodingCosts {
 public:
  /// Measures it on this thread. Fails with what the compressor and its memory fail with.
  static Result<CodingCosts> measure(const LayerList& model, const std::string& compressor);
  /// From what to_json() returned. Fails with: malformed.
  static Result<CodingCosts> from(const nlohmann::json& json, const LayerList& model, const std::string& compressor);

  /// {"encode_seconds", "decode_seconds", "payload_bytes"} of all, and "tensors": for each [nanoseconds to encode it,
  /// to decode it, bytes of each pass].
  nlohmann::json to_json() const;

  /// What a job with this compressor has to exchange in a group of so many ranks.
  Way way(std::uint32_t ranks) const;

 private:
  CodingCosts(const LayerList& model, compressors::Compression compression)
      : model_(&model), compression_(std::move(compression)) {}
  static Result<CodingCosts> make(const LayerList& model, const std::string& compressor);

  const LayerList* model_;
  compressors::Compression compression_;
  std::vector<training::CodedLoad> encoded_;  ///< by parameter; empty for those that are never encoded
};

}  // namespace weir::bench
