#include "training/modes/async.hpp"
#include "training/modes/backup.hpp"
#include "training/modes/local_sgd.hpp"
#include "training/modes/mode.hpp"
#include "training/modes/ssp.hpp"
#include "training/modes/sync.hpp"

namespace weir::training {

std::string_view name_of(Exchanged exchanged) {
  switch (exchanged) {
    case Exchanged::gradients: return "gradients";
    case Exchanged::differences: return "differences";
    case Exchanged::pushes: return "pushes";
  }
  return "";
}

std::uint64_t Mode::steps_of_rounds(const Replica&, std::uint64_t rounds) const { return rounds; }

nlohmann::json ModeEntry::describe() const {
  nlohmann::json it = CatalogEntry::describe();
  it["exchanges"] = name_of(exchanges);
  if (exchanges == Exchanged::pushes) it["roles"] = {{"server", {{"count", "servers"}}}};
  return it;
}

const ModeCatalog& modes() {
  static const auto catalog =
      ModeCatalog({.kind = "mode"}).add<Sync>().add<LocalSgd>().add<Async>().add<Ssp>().add<Backup>();
  return catalog;
}

}  // namespace weir::training
