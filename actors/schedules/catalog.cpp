#include "actors/schedules/constant.hpp"
#include "actors/schedules/cosine.hpp"
#include "actors/schedules/schedule.hpp"
#include "actors/schedules/step_decay.hpp"
#include "actors/schedules/warmup.hpp"

namespace weir::actors {

const ScheduleCatalog& schedules() {
  static const auto catalog =
      ScheduleCatalog({.kind = "lr_schedule"}).add<Constant>().add<StepDecay>().add<Cosine>().add<Warmup>();
  return catalog;
}

}  // namespace weir::actors
