#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "training/exchange/planner.hpp"

namespace weir::bench {

/// A job's compressor, and what it makes of the gradients.
struct Way {
  std::string compressor;                        ///< "none": gradients go as they are
  std::vector<training::BucketLoad> parameters;  ///< in the model's order
  bool gathers = false;                          ///< payloads are gathered, in one pass at least
  bool fits_owners = false;                      ///< as Situation
  bool must_be_coded = false;                    ///< as Situation
};

/// A place in which ways are compared.
struct Cell {
  std::uint32_t ranks = 1;
  training::LinkCosts links;
  double compute_seconds = 0;         ///< of a step without the exchange
  double dense_seconds_per_byte = 0;  ///< as Situation
  double frames_max = 0;              ///< steps that would send more are not simulated but predicted
};

/// A step of one way to exchange.
struct StepTime {
  std::string name;  ///< of the topology, or the routes of the plan
  double seconds = 0;
  double predicted = 0;   ///< in seconds, what the model says
  bool simulated = true;  ///< if not, `seconds` is what the model says
};

/// What a compressor does in a cell.
struct WayTimes {
  std::string compressor;
  StepTime fixed = {};                 ///< over the best of the topologies that a job can name
  std::vector<StepTime> choices = {};  ///< over those that differ here and that the model does not find hopeless
  StepTime automatic = {};             ///< with auto: the plan that it follows in the end
  double predicted_first = 0;          ///< what the model says of the plan that it finds the best
  std::size_t plans_tried = 0;
  double best_choice = 0;  ///< the fastest that a job could have chosen instead: this compressor or, unless only the
                           ///< compressor gives the means their scale, a dense form
};

/// Simulates all ways, the dense ones first ("none", then "bf16"). Fails with what simulated_seconds() fails with.
Result<std::vector<WayTimes>> times_in(const Cell& cell, std::span<const Way> ways);

}  // namespace weir::bench
