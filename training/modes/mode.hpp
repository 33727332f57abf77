#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "protocol/catalog.hpp"
#include "protocol/roles.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// The record of one optimizer step, which a mode reports. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;  ///< steps done so far, this one included
  double loss = 0;         ///< mean over the examples that this rank used in it
  std::uint64_t samples = 0;
  double seconds = 0;          ///< the whole step
  double compute_seconds = 0;  ///< the compute thread without its waits: data, forward, backward, optimizer
  Exchange::Times times;
  std::uint64_t dense_bytes = 0;  ///< bytes that a dense exchange would have sent
};

/// Receives the progress of a mode. Called on the compute thread; may block it.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Whether this rank wants to stop; training then ends after the next step that all ranks agree on.
  virtual bool stop_wanted() const = 0;

  /// Called after each step, when the replica is consistent. An error ends the training.
  virtual Result<void> step_done(const Replica& replica, const StepRecord& record) = 0;
};

/// The way in which the ranks train together.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Trains until steps_total, or until the ranks agree to stop. Blocks; must be called on the compute thread. Returns
  /// whether all steps are done. Fails with: invalid_argument (the loss became NaN or infinite), and with what the
  /// exchange fails with.
  virtual Result<bool> train(Replica& replica, Progress& progress) = 0;
};

/// A mode that needs processes beside its workers has a member `static constexpr std::array roles` of
/// protocol::RoleNeed, which the head reads from the catalog.
struct ModeEntry : protocol::CatalogEntry<Mode> {
  nlohmann::json roles;  ///< null: workers only

  template <class T>
  static ModeEntry of(const protocol::CatalogWords& words) {
    ModeEntry entry{CatalogEntry::of<T>(words), {}};
    if constexpr (requires { T::roles; })
      entry.roles = protocol::to_json(std::span<const protocol::RoleNeed>(T::roles));
    return entry;
  }

  /// {"name", "summary", "params": JSON schema, "roles": see protocol/roles.hpp, if it has any}
  nlohmann::json describe() const {
    auto entry = CatalogEntry::describe();
    if (!roles.is_null()) entry["roles"] = roles;
    return entry;
  }
};

/// The parameters are training.params of the job spec.
using ModeCatalog = protocol::Catalog<ModeEntry>;

/// All modes.
const ModeCatalog& modes();

}  // namespace weir::training
