#include "actors/modes/mode.hpp"
#include "actors/modes/sync.hpp"

namespace weir::actors {

const Menu<Mode>& modes() {
  static const auto menu = Menu<Mode>("mode").add<Sync>();
  return menu;
}

}  // namespace weir::actors
