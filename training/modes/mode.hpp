#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/catalog.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// The record of one optimizer step, which a mode reports. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;  ///< steps done so far, this one included
  double loss = 0;         ///< mean over the examples that this rank used in it
  std::uint64_t samples = 0;
  bool exchanged = true;          ///< the ranks have exchanged in it, and their models are equal now
  std::uint64_t local_steps = 0;  ///< then: those that this rank has made by itself since the last time
  double seconds = 0;             ///< the whole step
  double compute_seconds = 0;     ///< the compute thread without its waits: data, forward, backward, optimizer
  Exchange::Times times;
  std::uint64_t dense_bytes = 0;  ///< bytes that a dense exchange would have sent
};

/// Receives the progress of a mode. Called on the compute thread; may block it.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Whether this rank wants to stop; training then ends after the next step that all ranks agree on.
  virtual bool stop_wanted() const = 0;

  /// Called after each step. An error ends the training.
  virtual Result<void> step_done(const Replica& replica, const StepRecord& record) = 0;
};

/// What the ranks exchange.
enum class Exchanged : std::uint8_t {
  gradients,    ///< of which every optimizer applies the mean
  differences,  ///< between a rank's model and the last common one; each optimizer applies its rank's own gradients
  nothing,      ///< there is one rank
};

std::string_view name_of(Exchanged exchanged);

/// The way in which the ranks train together.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Trains until steps_total, or until the ranks agree to stop. Blocks; must be called on the compute thread. Returns
  /// whether all steps are done. Fails with: invalid_argument (the loss became NaN or infinite), and with what the
  /// exchange fails with.
  virtual Result<bool> train(Replica& replica, Progress& progress) = 0;

  virtual Exchanged exchanges() const = 0;

  /// The optimizer steps in which the ranks exchange so many times.
  virtual std::uint64_t steps_of_rounds(const Replica& replica, std::uint64_t rounds) const;
};

/// A mode in the catalog. Beside what protocol::CatalogEntry asks for, its class has
///
///     static constexpr Exchanged type_exchanges;
///
/// The parameters are training.params of the job spec.
struct ModeEntry : protocol::CatalogEntry<Mode> {
  Exchanged exchanges = Exchanged::gradients;

  template <class M>
  static ModeEntry of(const protocol::CatalogWords& words) {
    return with_conditions({CatalogEntry::of<M>(words), M::type_exchanges});
  }
  /// Every mode takes the parameters of protocol::Conditions, too.
  static ModeEntry with_conditions(ModeEntry of_mode);

  /// {"name", "summary", "params", "exchanges"}
  nlohmann::json describe() const;
};

using ModeCatalog = protocol::Catalog<ModeEntry>;

/// All modes.
const ModeCatalog& modes();

}  // namespace weir::training
