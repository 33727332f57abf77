#include "worker/catalog.hpp"

#include <nlohmann/json.hpp>

#include "actors/datasets/catalog.hpp"
#include "actors/models/catalog.hpp"
#include "actors/modes/mode.hpp"
#include "actors/optimizers/optimizer.hpp"
#include "actors/schedules/schedule.hpp"
#include "compressors/catalog.hpp"

namespace weir::worker {

nlohmann::json catalog() {
  nlohmann::json all = compressors::builtin().describe();
  all["models"] = actors::models().describe();
  all["datasets"] = actors::datasets().describe();
  all["modes"] = actors::modes().describe();
  all["optimizers"] = actors::optimizers().describe();
  all["lr_schedules"] = actors::schedules().describe();
  all["topologies"] = {{{"name", "ring"},
                        {"summary", "all-reduce and all-gather around a ring; every link carries the same load"},
                        {"params", actors::no_params()}}};
  return all;
}

}  // namespace weir::worker
