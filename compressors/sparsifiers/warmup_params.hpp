#pragma once

#include "compressors/sparsifiers/warmup.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Adds the parameters of a warm-up for Options that have a Warmup `warmup`.
template <class Options>
protocol::Params<Options> with_warmup(protocol::Params<Options> params) {
  params
      .optional_number(
          "warmup_epochs", [](Options& options) -> std::optional<double>& { return options.warmup.epochs; },
          {.minimum = 0.0},
          "Epochs, also fractional, until the ratio has come down to its value. Null: half of the training, a tenth if "
          "the learning rate does not fall, 4 at most.")
      .number(
          "warmup_dense", [](Options& options) -> double& { return options.warmup.dense; },
          {.minimum = 0.0, .maximum = 1.0},
          "Share of the warm-up at its beginning in which gradients go dense, by all-reduce.")
      .choice(
          "warmup_schedule", [](Options& options) -> std::string& { return options.warmup.schedule; },
          Warmup::schedules(),
          "How the ratio comes down in the rest of the warm-up: exponential, from 1 to its value without steps; paper, "
          "25 %, 6.25 %, 1.5625 %, 0.4 %; authors, the five steps of their code, ratio^(1/6) to ratio^(5/6).")
      .only_where("warmup_dense", "warmup_epochs", {{"exclusiveMinimum", 0}})
      .only_where("warmup_schedule", "warmup_epochs", {{"exclusiveMinimum", 0}})
      .only_where("warmup_schedule", "warmup_dense", {{"exclusiveMaximum", 1}});
  return params;
}

}  // namespace weir::compressors
