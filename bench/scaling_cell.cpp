#include "bench/scaling_cell.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "bench/simulated_step.hpp"
#include "collectives/topologies/catalog.hpp"
#include "protocol/exchange_plan.hpp"

namespace weir::bench {
namespace {

using collectives::Gathers;
using training::Bucket;
using training::Form;
using training::Route;
using training::Situation;

/// Fixed topologies are left out that the model finds slower than the best of them by this factor.
constexpr double hopeless = 3;
/// What `auto` is predicted to lose by this factor is simulated, whatever that takes.
constexpr double doubtful = 1.05;

std::vector<training::ParameterSize> sizes_of(const Way& way) {
  std::vector<training::ParameterSize> sizes;
  for (const auto& load : way.parameters) {
    sizes.push_back({.bytes = static_cast<std::uint64_t>(load.dense_bytes), .coded = load.coded});
  }
  return sizes;
}

/// Whether steps over this topology take the time of another's: binary_blocks' that of a butterfly where one fits,
/// those of hierarchical between hosts of one rank that of the hosts' topology, and a server on each rank, or a region,
/// does what an owner does in two_hop.
bool is_like_another(const collectives::TopologyType& type, std::uint32_t ranks) {
  return type.by_hosts || type.has_servers || type.gathers == Gathers::regions ||
         (type.name == "binary_blocks" && collectives::find_topology("butterfly")->fits(ranks));
}

/// What a job with this compressor could name. Gathered payloads go the same way in all topologies without owners. By
/// hops a bucket's bytes are those of two_hop in more steps, and dense ones are a butterfly's: on links like these it
/// cannot be the best.
std::vector<std::string_view> topologies_for(const Way& way, std::uint32_t ranks) {
  std::vector<std::string_view> names;
  const std::string_view gathering =
      collectives::find_topology("butterfly")->fits(ranks) ? "butterfly" : "binary_blocks";
  for (const auto& type : collectives::topologies()) {
    const bool fits = type.fits(ranks) && (!type.by_owners() || way.fits_owners || !way.gathers);
    if (!fits || type.gathers == Gathers::partners || is_like_another(type, ranks)) continue;
    if (!way.gathers || type.by_owners() || type.name == gathering) names.push_back(type.name);
  }
  return names;
}

/// "bfloat16 over ring, 12 buckets; float32 over tree, 1 bucket"
std::string text_of(std::span<const Route> routes) {
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> buckets;
  for (const Route& route : routes) ++buckets[{name_of(route.form), topology_of(route)}];
  std::vector<protocol::RouteShare> shares;
  for (const auto& [way, count] : buckets) {
    shares.push_back({.form = std::string(way.first), .topology = std::string(way.second), .buckets = count});
  }
  return protocol::to_string(shares);
}

class CellRun {
 public:
  explicit CellRun(const Cell& cell) : cell_(cell) {}

  Result<WayTimes> run(const Way& way) {
    WayTimes times{.compressor = way.compressor};
    Situation situation{.ranks = cell_.ranks,
                        .links = cell_.links,
                        .buckets = {},
                        .compute_seconds = cell_.compute_seconds,
                        .dense_seconds_per_byte = cell_.dense_seconds_per_byte,
                        .must_be_coded = way.must_be_coded,
                        .fits_owners = way.fits_owners,
                        .lanes = 2};
    auto choices = choices_of(way, situation);
    if (!choices) return choices.error();
    times.choices = std::move(*choices);
    times.fixed = *std::ranges::min_element(times.choices, {}, &StepTime::seconds);
    const bool dense = way.compressor == "none" || way.compressor == "bf16";
    if (dense) dense_choice_ = std::min(dense_choice_, times.fixed.seconds);
    const bool may_go_dense = way.compressor != "none" && !way.must_be_coded;
    times.best_choice = may_go_dense ? std::min(times.fixed.seconds, dense_choice_) : times.fixed.seconds;
    if (auto done = follow(way, situation, times); !done) return done.error();
    return times;
  }

 private:
  /// Each bucket over the same topology, in buckets of the usual size.
  Result<std::vector<StepTime>> choices_of(const Way& way, Situation situation) {
    const auto buckets = training::plan_buckets(sizes_of(way), {});
    situation.buckets = training::loads_of(way.parameters, buckets);
    std::vector<std::pair<double, std::vector<Route>>> found;
    for (const std::string_view name : topologies_for(way, cell_.ranks)) {
      const auto* type = collectives::find_topology(name);
      const Route route{.form = Form::coded,
                        .topology = static_cast<std::size_t>(type - collectives::topologies().data()),
                        .by_owners = way.gathers && type->by_owners()};
      std::vector<Route> routes(buckets.size(), route);
      const double predicted = training::predicted_seconds(situation, routes);
      found.emplace_back(predicted, std::move(routes));
    }
    const double least = std::ranges::min_element(found, {}, [](const auto& entry) { return entry.first; })->first;
    std::vector<StepTime> choices;
    for (const auto& [predicted, routes] : found) {
      if (predicted > hopeless * least) continue;
      auto time = time_of(situation, routes);
      if (!time) return time.error();
      time->name = topology_of(routes.front());
      choices.push_back(std::move(*time));
    }
    return choices;
  }

  /// As AutoPlan: the first steps have the usual buckets and the best plan for them before the computation has been
  /// seen; then others are tried.
  Result<void> follow(const Way& way, Situation situation, WayTimes& times) {
    std::vector<std::vector<Bucket>> layouts;
    for (const auto& size : training::sizes_around({})) {
      auto buckets = training::plan_buckets(sizes_of(way), size);
      if (std::ranges::find(layouts, buckets) == layouts.end()) layouts.push_back(std::move(buckets));
    }
    const auto usual = training::plan_buckets(sizes_of(way), {});
    const auto current = static_cast<std::size_t>(std::ranges::find(layouts, usual) - layouts.begin());
    situation.compute_seconds = 0;
    training::Plan first = training::plans_to_try(situation, way.parameters, layouts, current).front();
    situation.compute_seconds = cell_.compute_seconds;
    auto plans = training::plans_to_try(situation, way.parameters, layouts, current);
    times.predicted_first = plans.front().step_seconds;
    if (std::ranges::find(plans, first) == plans.end()) plans.push_back(std::move(first));
    times.plans_tried = plans.size();
    std::vector<StepTime> steps;
    std::vector<double> seconds;
    for (const training::Plan& plan : plans) {
      situation.buckets = training::loads_of(way.parameters, layouts[plan.layout]);
      auto time = time_of(situation, plan.routes);
      if (!time) return time.error();
      time->name = text_of(plan.routes);
      seconds.push_back(time->seconds);
      steps.push_back(std::move(*time));
    }
    const std::size_t followed = training::best_tried(seconds);
    times.automatic = std::move(steps[followed]);
    if (times.automatic.simulated || times.automatic.seconds <= doubtful * times.best_choice) return {};
    situation.buckets = training::loads_of(way.parameters, layouts[plans[followed].layout]);
    auto time = time_of(situation, plans[followed].routes, std::numeric_limits<double>::infinity());
    if (!time) return time.error();
    time->name = std::move(times.automatic.name);
    times.automatic = std::move(*time);
    return {};
  }

  Result<StepTime> time_of(const Situation& situation, std::span<const Route> routes) {
    return time_of(situation, routes, cell_.frames_max);
  }

  Result<StepTime> time_of(const Situation& situation, std::span<const Route> routes, double frames_max) {
    auto work = work_of(situation, routes);
    const auto known = known_.find(work);
    if (known != known_.end() && (known->second.simulated || frames_max <= cell_.frames_max)) return known->second;
    StepTime time;
    time.predicted = training::predicted_seconds(situation, routes);
    time.simulated = frames_of(work, cell_.ranks) <= frames_max;
    if (time.simulated) {
      const auto seconds = simulated_seconds(situation, work);
      if (!seconds) return seconds.error().within(text_of(routes));
      time.seconds = *seconds;
    } else {
      time.seconds = time.predicted;
    }
    known_.insert_or_assign(std::move(work), time);
    return time;
  }

  const Cell& cell_;
  double dense_choice_ = std::numeric_limits<double>::infinity();  ///< the fastest dense one so far
  std::map<std::vector<BucketWork>, StepTime> known_;
};

}  // namespace

Result<std::vector<WayTimes>> times_in(const Cell& cell, std::span<const Way> ways) {
  CellRun run(cell);
  std::vector<WayTimes> all;
  for (const Way& way : ways) {
    auto times = run.run(way);
    if (!times) return times.error().within(way.compressor);
    all.push_back(std::move(*times));
  }
  return all;
}

}  // namespace weir::bench
