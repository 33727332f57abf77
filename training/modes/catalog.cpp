#include "training/modes/async.hpp"
#include "training/modes/backup.hpp"
#include "training/modes/local_sgd.hpp"
#include "training/modes/mode.hpp"
#include "training/modes/ssp.hpp"
#include "training/modes/sync.hpp"

namespace weir::training {

const ModeCatalog& modes() {
  static const auto catalog =
      ModeCatalog({.kind = "mode"}).add<Sync>().add<LocalSgd>().add<Async>().add<Ssp>().add<Backup>();
  return catalog;
}

}  // namespace weir::training
