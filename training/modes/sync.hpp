#pragma once

#include <cstdint>
#include <string_view>

#include "training/modes/mode.hpp"

namespace weir::training {

/// Synchronous data-parallel training: every step applies the mean of all ranks' gradients, so that all ranks hold the
/// same parameters, bit for bit, after every step.
///
/// A rank's gradient is that of the mean loss over its `accumulate` batches, which go forward and backward one after
/// the other: as if it were one batch of that many times the size, but for rounding and for batch norm, at the memory
/// of one. The exchange runs beside the last of the backward passes.
///
/// Where a job applies compression to models, each rank's optimizer applies that gradient, and then the ranks exchange
/// by how much their models differ from the last common one, after every step.
class Sync final : public Mode {
 public:
  static constexpr std::string_view type_name = "sync";
  static constexpr std::string_view summary = "every step applies the mean gradient of all workers";

  static constexpr Exchanged type_exchanges = Exchanged::gradients;

  struct Options {
    std::int64_t accumulate = 1;
  };
  static protocol::Params<Options> params();
  explicit Sync(Options options) : options_(options) {}

  Result<bool> train(Replica& replica, Progress& progress) override;
  Exchanged exchanges() const override { return type_exchanges; }

 private:
  Options options_;
};

}  // namespace weir::training
