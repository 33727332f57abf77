#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/catalog.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// The record of one optimizer step, which a mode reports. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;  ///< steps done so far, this one included
  double loss = 0;         ///< mean over the examples that this rank used in it
  std::uint64_t samples = 0;
  bool exchanged = true;          ///< the ranks have exchanged in it
  bool settled = true;            ///< the model of the training is as after this step: it may be evaluated and saved
  std::uint64_t local_steps = 0;  ///< where they have exchanged: those that this rank has made since the last time
  double seconds = 0;             ///< the whole step
  double compute_seconds = 0;     ///< the compute thread without its waits: data, forward, backward, optimizer
  Exchange::Times times = {};
  std::uint64_t dense_bytes = 0;  ///< bytes that a dense exchange would have sent
  /// How far the ranks' models are from their mean, if that was measured: the square root of the mean square.
  std::optional<double> consensus_distance = {};
};

/// Receives the progress of a mode. Called on the compute thread; may block it.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Whether this rank wants to stop; training then ends after the next step that all ranks agree on.
  virtual bool stop_wanted() const = 0;

  /// Whether the model of the training should be there after so many steps. All ranks answer alike.
  virtual bool model_wanted(std::uint64_t /*steps*/) const { return false; }

  /// Called after each step. An error ends the training.
  virtual Result<void> step_done(const Replica& replica, const StepRecord& record) = 0;
};

/// What the ranks exchange.
enum class Exchanged : std::uint8_t {
  gradients,    ///< of which every optimizer applies the mean
  differences,  ///< between a rank's model and the last common one; each optimizer applies its rank's own gradients
  models,       ///< with neighbours, or by how much they have changed; each optimizer applies its rank's own gradients
  nothing,      ///< there is one rank
};

std::string_view name_of(Exchanged exchanged);

/// What a mode keeps from step to step besides the models and the optimizers. The tensors alias the live ones.
struct ModeState {
  /// The model of the training, if that is not what each rank trains: its parameters, and the buffers that the ranks
  /// exchange. Else empty.
  std::vector<NamedTensor> model = {};
  std::vector<NamedTensor> common = {};  ///< equal on all ranks
  std::vector<NamedTensor> own = {};     ///< of this rank
};

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

  /// Whether the rest of the job fits. Fails with: invalid_argument (says why not).
  virtual Result<void> check(const protocol::JobSpec& /*spec*/, std::uint32_t /*world*/,
                             const compressors::Compression& /*compression*/) const {
    return {};
  }

  /// Makes what the ranks exchange by, on all of them together; by default replica.exchange. Fails with what the group
  /// fails with.
  virtual Result<void> join(Replica& replica, collectives::Fabric& fabric);

  /// Which tensors an exchange takes in one step (Exchange::Options::groups).
  virtual std::vector<std::uint32_t> groups(std::span<const NamedTensor> /*tensors*/) const { return {}; }

  /// For a checkpoint.
  virtual ModeState save() const { return {}; }
  /// Before join(), with copies of what save() returned as common and own; the replica's model is that of the training.
  /// Fails with: malformed (not a state from save()).
  virtual Result<void> restore(Replica& replica, std::span<const NamedTensor> common, std::span<const NamedTensor> own);

  /// What the last step with an exchange did, and what all have moved; nothing where nothing is exchanged.
  virtual const StepTrace* trace(const Replica& replica) const {
    return replica.exchange ? &replica.exchange->trace() : nullptr;
  }

  /// Whether each rank has a model of its own beside that of the training, to be saved with it.
  virtual bool own_models() const { return false; }
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
