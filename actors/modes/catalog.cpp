#include "actors/modes/mode.hpp"
#include "actors/modes/sync.hpp"

namespace weir::actors {

const ModeCatalog& modes() {
  static const auto catalog = ModeCatalog({.kind = "mode"}).add<Sync>();
  return catalog;
}

}  // namespace weir::actors
