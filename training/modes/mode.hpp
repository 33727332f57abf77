#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/catalog.hpp"
#include "protocol/roles.hpp"
#include "training/progress.hpp"
#include "training/replica.hpp"
#include "training/servers/rule.hpp"

namespace weir::training {

/// What the workers exchange.
enum class Exchanged : std::uint8_t {
  gradients,    ///< of which every optimizer applies the mean
  differences,  ///< between a rank's model and the last common one; each optimizer applies its rank's own gradients
  models,       ///< with neighbours, or by how much they have changed; each optimizer applies its rank's own gradients
  nothing,      ///< there is one rank
  pushes,       ///< gradients, with servers, which apply them without all the others and answer with differences
};

std::string_view name_of(Exchanged exchanged);

/// What a mode keeps from step to step besides the models and the optimizers. The tensors alias the live ones.
struct ModeState {
  /// The model of the training, if that is not what each rank trains: its parameters, and those buffers that are not
  /// rank 0's. Else empty.
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

  /// How many workers' gradients make one step. Fails with: invalid_argument (there are too few workers).
  virtual Result<std::uint32_t> gradients_per_step(std::uint32_t workers) const { return workers; }

  /// Whether the rest of the job fits. Fails with: invalid_argument (says why not).
  virtual Result<void> check(const protocol::JobSpec& /*spec*/, std::uint32_t /*world*/,
                             const compressors::Compression& /*compression*/) const {
    return {};
  }

  /// Makes what the ranks exchange by, on all of them together; by default replica.exchange. `fabric`: with the ranks
  /// behind the workers. Fails with what the group fails with.
  virtual Result<void> join(Replica& replica, collectives::Fabric& fabric);

  /// Which tensors an exchange takes in one step (Exchange::Options::groups).
  virtual std::vector<std::uint32_t> groups(std::span<const NamedTensor> /*tensors*/) const { return {}; }

  /// For a checkpoint.
  virtual ModeState save() const { return {}; }
  /// Before join(), with copies of what save() returned as common and own; the replica's model is that of the training.
  /// Fails with: malformed (not a state from save()).
  virtual Result<void> restore(Replica& replica, std::span<const NamedTensor> common, std::span<const NamedTensor> own);

  /// What steps with an exchange have moved, and what the last of them did; nothing where nothing is exchanged, and
  /// before join().
  virtual const TrafficAccount* traffic(const Replica& replica) const {
    return replica.exchange ? &replica.exchange->trace() : nullptr;
  }

  /// Whether each rank has a model of its own beside that of the training, to be saved with it.
  virtual bool own_models() const { return false; }

  /// When a server applies pushes and answers; null without servers.
  virtual std::unique_ptr<servers::PushRule> rule(const servers::RuleSetting& /*setting*/) const { return nullptr; }
};

/// A mode in the catalog. Beside what protocol::CatalogEntry asks for, its class has
///
///     static constexpr Exchanged type_exchanges;
///
/// and, if it needs processes beside its workers, those that the head is to start:
///
///     static constexpr std::array roles = {protocol::RoleNeed{protocol::Role::server, "servers"}};
///
/// The parameters are training.params of the job spec.
struct ModeEntry : protocol::CatalogEntry<Mode> {
  Exchanged exchanges = Exchanged::gradients;
  nlohmann::json roles = {};  ///< null: workers only

  template <class M>
  static ModeEntry of(const protocol::CatalogWords& words) {
    ModeEntry entry{CatalogEntry::of<M>(words), M::type_exchanges};
    if constexpr (requires { M::roles; }) {
      entry.roles = protocol::to_json(std::span<const protocol::RoleNeed>(M::roles));
    }
    return with_conditions(std::move(entry));
  }
  /// Every mode takes the parameters of protocol::Conditions, too.
  static ModeEntry with_conditions(ModeEntry of_mode);

  /// {"name", "summary", "params", "exchanges", "roles": see protocol/roles.hpp, if it has any}
  nlohmann::json describe() const;
};

using ModeCatalog = protocol::Catalog<ModeEntry>;

/// All modes.
const ModeCatalog& modes();

}  // namespace weir::training
