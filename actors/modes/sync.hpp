#pragma once

#include <string_view>

#include "actors/modes/mode.hpp"

namespace weir::actors {

/// Synchronous data-parallel training: every step applies the mean of all ranks' gradients, so that all ranks hold the
/// same parameters, bit for bit, after every step.
class Sync final : public Mode {
 public:
  static constexpr std::string_view type_name = "sync";
  static constexpr std::string_view summary = "every step applies the mean gradient of all workers";

  Result<bool> train(Replica& replica, Progress& progress) override;
};

}  // namespace weir::actors
