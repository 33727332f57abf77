#include "training/modes/diloco.hpp"
#include "training/modes/gossip.hpp"
#include "training/modes/local_sgd.hpp"
#include "training/modes/mode.hpp"
#include "training/modes/sync.hpp"

namespace weir::training {

const ModeCatalog& modes() {
  static const auto catalog = ModeCatalog({.kind = "mode"}).add<Sync>().add<LocalSgd>().add<DiLoCo>().add<Gossip>();
  return catalog;
}

}  // namespace weir::training
