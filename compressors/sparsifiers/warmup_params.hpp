#pragma once

#include "compressors/params.hpp"
#include "compressors/sparsifiers/warmup.hpp"

namespace weir::compressors {

/// The parameters of a warm-up, for Options that have a Warmup `warmup`.
template <class Options>
Params<Options> with_warmup(Params<Options> params) {
  params
      .number(
          "warmup_epochs", [](Options& options) -> double& { return options.warmup.epochs; }, {.minimum = 0},
          "Epochs over which the ratio comes down to its value; long trainings take 4 or 5.")
      .optional_number(
          "warmup_coefficient", [](Options& options) -> std::optional<double>& { return options.warmup.coefficient; },
          {.exclusive_minimum = 0, .maximum = 1},
          "Ratio of warm-up epoch e (from 0): this to the power e + 1. "
          "Null: ratio^((e + 1) / (warmup_epochs + 1)).")
      .numbers(
          "warmup_ratios", [](Options& options) -> std::vector<double>& { return options.warmup.ratios; },
          {.exclusive_minimum = 0, .maximum = 1},
          "Ratio of each warm-up epoch, in the place of warmup_epochs and warmup_coefficient; "
          "DGC's paper has [0.25, 0.0625, 0.015625, 0.004].");
  return params;
}

}  // namespace weir::compressors
