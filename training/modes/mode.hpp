#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "protocol/catalog.hpp"
#include "training/progress.hpp"
#include "training/replica.hpp"
#include "training/servers/rule.hpp"

namespace weir::training {

/// What the workers exchange.
enum class Exchanged : std::uint8_t {
  gradients,    ///< of which every optimizer applies the mean
  differences,  ///< between a rank's model and the last common one; each optimizer applies its rank's own gradients
  nothing,      ///< there is one rank
  pushes,       ///< gradients, with servers, which apply them without all the others and answer with differences
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

  /// How many parameter servers hold the model, in ranks behind those of the workers; 0: the workers hold it.
  virtual std::uint32_t servers() const { return 0; }
  /// How many workers' gradients make one step. Fails with: invalid_argument (there are too few workers).
  virtual Result<std::uint32_t> gradients_per_step(std::uint32_t workers) const { return workers; }
  /// When a server applies pushes and answers; null without servers.
  virtual std::unique_ptr<servers::PushRule> rule(const servers::RuleSetting& /*setting*/) const { return nullptr; }
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

  /// {"name", "summary", "params", "exchanges", "roles": {"server": {"count": the parameter that says how many}}, if it
  /// has servers}
  nlohmann::json describe() const;
};

using ModeCatalog = protocol::Catalog<ModeEntry>;

/// All modes.
const ModeCatalog& modes();

}  // namespace weir::training
