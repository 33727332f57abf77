#include "actors/schedules/constant.hpp"
#include "actors/schedules/cosine.hpp"
#include "actors/schedules/schedule.hpp"
#include "actors/schedules/step_decay.hpp"
#include "actors/schedules/warmup.hpp"

namespace weir::actors {

const Menu<Schedule, const ScheduleSetting&>& schedules() {
  static const auto menu = Menu<Schedule, const ScheduleSetting&>("lr_schedule")
                               .add<Constant>()
                               .add<StepDecay>()
                               .add<Cosine>()
                               .add<Warmup>();
  return menu;
}

}  // namespace weir::actors
