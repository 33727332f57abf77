#include "training/schedules/constant.hpp"
#include "training/schedules/cosine.hpp"
#include "training/schedules/multistep.hpp"
#include "training/schedules/schedule.hpp"
#include "training/schedules/step_decay.hpp"
#include "training/schedules/warmup.hpp"

namespace weir::training {

nlohmann::json ScheduleEntry::describe() const {
  auto described = CatalogEntry::describe();
  described["falls"] = falls;
  return described;
}

const ScheduleCatalog& schedules() {
  static const auto catalog = ScheduleCatalog({.kind = "lr_schedule"})
                                  .add<Constant>()
                                  .add<StepDecay>()
                                  .add<MultiStep>()
                                  .add<Cosine>()
                                  .add<Warmup>();
  return catalog;
}

}  // namespace weir::training
