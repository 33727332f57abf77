#pragma once

#include <nlohmann/json_fwd.hpp>

namespace weir::worker {

/// Everything a job can name, each with a summary and the JSON schema of its parameters: {"models", "datasets",
/// "compressors", "memories", "modes", "topologies", "optimizers", "lr_schedules"}. A model also has its number of
/// "parameters" on images of 28 x 28 with 10 classes, a mode the "topologies" it works over, a topology what it
/// carries. Besides, there are the "graphs" that gossip takes, without parameters. `weir-worker catalog` prints it; the
/// build embeds the output in `weir`, which does not link LibTorch and the catalogs.
nlohmann::json catalog();

}  // namespace weir::worker
