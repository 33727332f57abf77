#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "protocol/catalog.hpp"
#include "training/progress.hpp"
#include "training/replica.hpp"
#include "training/servers/rule.hpp"

namespace weir::training {

/// The way in which the ranks train together.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Trains until steps_total, or until the ranks agree to stop. Blocks; must be called on the compute thread. Returns
  /// whether all steps are done. Fails with: invalid_argument (the loss became NaN or infinite), and with what the
  /// exchange fails with.
  virtual Result<bool> train(Replica& replica, Progress& progress) = 0;

  /// What the ranks exchange, as errors call it.
  virtual std::string_view values() const { return "gradient"; }

  /// Whether the optimizers of the ranks differ in their state. Otherwise all apply the same means.
  virtual bool own_optimizers() const { return false; }

  /// How many parameter servers hold the model, in ranks behind those of the workers; 0: the workers hold it.
  virtual std::uint32_t servers() const { return 0; }
  /// How many workers' gradients make one step. Fails with: invalid_argument (there are too few workers).
  virtual Result<std::uint32_t> gradients_per_step(std::uint32_t workers) const { return workers; }
  /// When a server applies pushes and answers; null without servers.
  virtual std::unique_ptr<servers::PushRule> rule(const servers::RuleSetting& /*setting*/) const { return nullptr; }
};

/// The parameters are training.params of the job spec.
using ModeCatalog = protocol::Catalog<protocol::CatalogEntry<Mode>>;

/// All modes.
const ModeCatalog& modes();

}  // namespace weir::training
