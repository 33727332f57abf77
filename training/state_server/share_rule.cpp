#include "training/state_server/share_rule.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::training {
namespace {

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void ShareRule::learn(std::uint32_t number, const WorkerState& state, double slowest_step) {
  if (state.encode_seconds + state.link_seconds <= 0) return;  // it has been through no exchange
  Worker& worker = workers_[number];
  const double part = worker.known ? smoothing : 1;
  worker.known = true;
  worker.encode += part * (state.encode_seconds - worker.encode);
  worker.link += part * (state.link_seconds / state.share - worker.link);

  std::vector<double> exchanges;
  std::vector<double> links;
  for (const Worker& one : workers_) {
    if (!one.known) return;
    exchanges.push_back(one.encode + one.link);
    links.push_back(one.link);
  }
  const double target = std::max(lower_median(std::move(exchanges)), slowest_step / 10);
  const double room = target - worker.encode;
  // Where it is not the link that is slow, sending less would help nobody.
  const bool slow_link = worker.link > 1.25 * lower_median(std::move(links));
  const double wanted = !slow_link || room >= worker.link ? 1 : std::max(room / worker.link, share_min);
  worker.share = std::clamp(std::pow(worker.share, 1 - smoothing) * std::pow(wanted, smoothing), share_min, 1.0);
}

}  // namespace weir::training
