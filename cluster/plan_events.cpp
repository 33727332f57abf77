#include "cluster/plan_events.hpp"

#include <utility>

#include "protocol/exchange_plan.hpp"

namespace weir::cluster {

std::vector<std::string> PlanEvents::add(std::span<const protocol::ExchangePlan> plans) {
  std::vector<std::string> messages;
  for (const auto& plan : plans) {
    const bool on_trial = is_on_trial(plan);
    auto routes = protocol::to_string(protocol::routes_of(plan));
    const bool is_news = count_ == 0 || (!on_trial && (on_trial_ || routes != routes_));
    if (!is_news || count_ == events_max) continue;
    ++count_;
    on_trial_ = on_trial;
    routes_ = std::move(routes);
    std::string& message = messages.emplace_back("from step " + std::to_string(plan.step + 1) + " on: " + routes_ +
                                                 " (" + plan.reason + ")");
    if (count_ == events_max) message += "; later changes are not listed here";
  }
  return messages;
}

}  // namespace weir::cluster
