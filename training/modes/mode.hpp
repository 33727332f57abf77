#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

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

  /// How many workers' gradients make one step. Fails with: invalid_argument (there are too few workers).
  virtual Result<std::uint32_t> gradients_per_step(std::uint32_t workers) const { return workers; }
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
