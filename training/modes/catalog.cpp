#include <utility>

#include "protocol/conditions.hpp"
#include "training/modes/async.hpp"
#include "training/modes/backup.hpp"
#include "training/modes/diloco.hpp"
#include "training/modes/esync.hpp"
#include "training/modes/gossip.hpp"
#include "training/modes/local.hpp"
#include "training/modes/local_sgd.hpp"
#include "training/modes/mode.hpp"
#include "training/modes/ssp.hpp"
#include "training/modes/sync.hpp"

namespace weir::training {

std::string_view name_of(Exchanged exchanged) {
  switch (exchanged) {
    case Exchanged::gradients: return "gradients";
    case Exchanged::differences: return "differences";
    case Exchanged::models: return "models";
    case Exchanged::nothing: return "nothing";
    case Exchanged::pushes: return "pushes";
  }
  return "";
}

ModeEntry ModeEntry::with_conditions(ModeEntry of_mode) {
  of_mode.schema = [own = std::move(of_mode.schema)] { return protocol::with_conditions(own()); };
  of_mode.make = [own = std::move(of_mode.make)](const nlohmann::json& params) {
    return own(protocol::without_conditions(params));
  };
  return of_mode;
}

nlohmann::json ModeEntry::describe() const {
  nlohmann::json it = CatalogEntry::describe();
  it["exchanges"] = name_of(exchanges);
  if (!roles.is_null()) it["roles"] = roles;
  return it;
}

const ModeCatalog& modes() {
  static const auto catalog = ModeCatalog({.kind = "mode"})
                                  .add<Sync>()
                                  .add<LocalSgd>()
                                  .add<DiLoCo>()
                                  .add<ESync>()
                                  .add<Gossip>()
                                  .add<Async>()
                                  .add<Ssp>()
                                  .add<Backup>()
                                  .add<Local>();
  return catalog;
}

}  // namespace weir::training
