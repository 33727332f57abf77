#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/job_spec.hpp"

namespace weir::protocol {

/// "20 x 1 x 5 x 5"; "one number" if there are no extents.
inline std::string extents_text(std::span<const std::int64_t> extents) {
  std::string text;
  for (const auto extent : extents) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "one number" : text;
}

/// One parameter tensor of a model: its name as in checkpoints, and its extents.
struct ParameterShape {
  std::string name;
  std::vector<std::int64_t> extents;

  friend bool operator==(const ParameterShape&, const ParameterShape&) = default;
};

/// The sizes of a job's model and data set, as far as they are known without LibTorch and without reading data.
struct TrainingShape {
  std::vector<ParameterShape> parameters;       ///< in the order of the model; empty if only files would tell
  std::optional<std::uint64_t> train_examples;  ///< empty if only the files would tell
  std::optional<std::uint64_t> classes = {};    ///< the most that partitions can tell apart; of texts, sections
};

/// Returns the shape of a job's training. Fails with: invalid_argument (the model cannot take such examples), not_found
/// (no such model or dataset).
using ShapeOf = std::function<Result<TrainingShape>(const JobSpec&)>;

}  // namespace weir::protocol
