#include "training/exchange/planner.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/topology.hpp"
#include "training/exchange/lane_order.hpp"

namespace weir::training {
namespace {

using collectives::Cost;
using collectives::Element;
using collectives::Gathers;
using collectives::TopologyType;

/// Plans are tried that the model finds at most so much slower than the best.
constexpr double worth_a_trial = 1.5;
constexpr std::size_t trials_max = 6;
/// Smaller buckets have to promise at most this part of the time that larger ones take: they are more messages, each of
/// which costs a little that the model does not know of.
constexpr double worth_more_messages = 0.97;
/// Of two plans whose steps differ by less than the noise, the one that the model prefers is followed.
constexpr double noise = 1.03;

/// What one bucket takes along one route, in seconds.
struct Effort {
  double encode = 0;
  double latency = 0;  ///< on the wire, while others may use the port
  double port = 0;     ///< on the wire, alone
  double decode = 0;

  double alone() const { return encode + latency + port + decode; }
};

double latency_of(const Cost& cost, const LinkCosts& links) { return cost.alpha * links.latency_seconds; }
/// `summed`: as PassLoad.
double port_of(const Cost& cost, const LinkCosts& links, const std::optional<Element>& summed) {
  return cost.beta * links.seconds_per_byte_of(summed) + cost.gamma * links.combine_seconds_per_byte;
}

bool is_summed_within_hosts(const Situation& in, const BucketLoad& bucket) { return in.by_hosts && bucket.coded; }

/// Those between whom a topology carries something, and their links.
struct Level {
  std::uint32_t ranks = 1;
  LinkCosts links;
};

/// The ranks of a host share its port: as many streams at once are as much slower.
LinkCosts shared_port(const Situation& in, const TopologyType& type) {
  std::uint32_t streams = in.hosts.ranks_max;
  if (type.streams_to_neighbours > 0) streams = std::min(streams, type.streams_to_neighbours * in.hosts.ends_max);
  LinkCosts links = in.links;
  links.latency_seconds = std::max(links.latency_seconds, in.hosts.links.latency_seconds);
  links.seconds_per_byte = std::max(links.seconds_per_byte * streams, in.hosts.links.seconds_per_byte);
  return links;
}

Level level_of(const Situation& in, const BucketLoad& bucket, const TopologyType& type) {
  if (in.hosts.count == 0) return {in.ranks, in.links};
  if (type.by_hosts || is_summed_within_hosts(in, bucket)) return {in.hosts.count, in.links};
  return {in.ranks, shared_port(in, type)};
}

/// Adds what it takes to sum `bytes` within each host, where nothing is packed, and to copy the result to its ranks.
void add_within_hosts(const Situation& in, double bytes, Effort& effort) {
  const Cost cost = collectives::Topology::to_root_and_back_cost(in.hosts.ranks_max, bytes);
  effort.latency += latency_of(cost, in.hosts.links);
  effort.port += port_of(cost, in.hosts.links, {});
}

/// Of floats that are sent as they are, or rounded to 16 bits.
Effort dense_effort(const Situation& in, double dense_bytes, Form form, const TopologyType& type, const Level& level) {
  const double bytes = form == Form::bfloat16 ? dense_bytes / 2 : dense_bytes;
  const Element element = form == Form::bfloat16 ? Element::bfloat16 : Element::float32;
  const Cost cost = type.all_reduce_cost(level.ranks, bytes);
  const double copied = dense_bytes * in.dense_seconds_per_byte;
  Effort effort{.encode = copied,
                .latency = latency_of(cost, level.links),
                .port = port_of(cost, level.links, element),
                .decode = copied};
  if (type.by_hosts) add_within_hosts(in, bytes, effort);
  return effort;
}

Effort coded_effort(const Situation& in, const CodedLoad& load, const TopologyType& type, const Level& level) {
  Effort effort;
  if (load.left_dense_bytes > 0) effort = dense_effort(in, load.left_dense_bytes, Form::float32, type, level);
  effort.encode += load.encode_seconds;
  for (const PassLoad& pass : load.passes) {
    Cost cost;
    if (pass.summed) {
      cost = type.all_reduce_cost(level.ranks, pass.bytes);
    } else if (type.by_owners()) {
      cost = type.by_owners_cost(level.ranks, pass.bytes);
      // A rank decodes its share of all payloads and encodes it again.
      effort.decode += load.decode_seconds + load.encode_seconds / level.ranks;
    } else {
      cost = type.all_gather_cost(level.ranks, pass.bytes);
    }
    effort.latency += latency_of(cost, level.links);
    effort.port += port_of(cost, level.links, pass.summed);
  }
  if (load.passes.empty()) return effort;
  // Only the results of the last pass are decoded: one sum, the shares of all owners, or the payloads of all ranks.
  const bool all_payloads = !load.passes.back().summed && !type.by_owners();
  effort.decode += load.decode_seconds * (all_payloads ? level.ranks : 1);
  return effort;
}

Effort effort_of(const Situation& in, const BucketLoad& bucket, const Route& route) {
  const auto& type = collectives::topologies()[route.topology];
  const Level level = level_of(in, bucket, type);
  if (!bucket.coded) return dense_effort(in, bucket.dense_bytes, Form::float32, type, level);
  Effort effort = route.form == Form::coded
                      ? coded_effort(in, type.by_owners() ? bucket.by_owners : bucket.by_all, type, level)
                      : dense_effort(in, bucket.dense_bytes, route.form, type, level);
  if (is_summed_within_hosts(in, bucket)) add_within_hosts(in, bucket.dense_bytes, effort);
  return effort;
}

/// The topologies that a plan may use for a bucket. Whether hosts sum what may be coded first is decided once for a
/// job: one that does so itself is only for other buckets. Over split_gather a step applies other entries than over the
/// others: that is for the job to say. So is multi_hop: by the model, to which many messages at once are one latency,
/// it is never faster than two_hop.
std::vector<std::size_t> candidates(const Situation& in, const BucketLoad& bucket) {
  std::vector<std::size_t> found;
  const auto all = collectives::topologies();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].fits(level_of(in, bucket, all[i]).ranks) || all[i].has_servers) continue;
    if (all[i].gathers == Gathers::regions || all[i].gathers == Gathers::partners) continue;
    if (all[i].by_hosts && (in.hosts.count == 0 || bucket.coded)) continue;
    found.push_back(i);
  }
  return found;
}

/// The routes of a bucket in a form, the best ones first, each taken by itself.
std::vector<Route> best_routes(const Situation& in, const BucketLoad& bucket, Form form) {
  std::vector<std::pair<double, Route>> found;
  for (const std::size_t topology : candidates(in, bucket)) {
    const bool by_owners = collectives::topologies()[topology].by_owners();
    if (form == Form::coded && bucket.coded && by_owners && !in.fits_owners) continue;
    const Route route{.form = bucket.coded ? form : Form::float32, .topology = topology, .by_owners = by_owners};
    found.emplace_back(effort_of(in, bucket, route).alone(), route);
  }
  std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
  std::vector<Route> routes;
  for (const auto& [seconds, route] : found) routes.push_back(route);
  return routes;
}

std::vector<Form> forms(const Situation& in) {
  if (in.must_be_coded) return {Form::coded};
  if (!in.may_be_rounded) return {Form::coded, Form::float32};
  return {Form::coded, Form::bfloat16, Form::float32};
}

void add(const CodedLoad& load, CodedLoad& sum) {
  sum.left_dense_bytes += load.left_dense_bytes;
  sum.encode_seconds += load.encode_seconds;
  sum.decode_seconds += load.decode_seconds;
  sum.passes.resize(std::max(sum.passes.size(), load.passes.size()));
  for (std::size_t i = 0; i < load.passes.size(); ++i) {
    sum.passes[i].summed = load.passes[i].summed;
    sum.passes[i].bytes += load.passes[i].bytes;
  }
}

/// One thing after the other, whoever is first.
class Server {
 public:
  /// Returns when work that is there from `ready` on, and takes `seconds`, is done.
  double serve(double ready, double seconds) { return free_ = std::max(free_, ready) + seconds; }

 private:
  double free_ = 0;
};

}  // namespace

BucketLoad sum_of(std::span<const BucketLoad> loads, std::span<const std::uint32_t> members) {
  BucketLoad sum;
  for (const auto member : members) {
    sum.dense_bytes += loads[member].dense_bytes;
    add(loads[member].by_all, sum.by_all);
    add(loads[member].by_owners, sum.by_owners);
  }
  return sum;
}

std::vector<BucketLoad> loads_of(std::span<const BucketLoad> parameters, std::span<const Bucket> buckets) {
  std::vector<BucketLoad> loads;
  for (const Bucket& bucket : buckets) {
    BucketLoad& load = loads.emplace_back(sum_of(parameters, bucket.parameters));
    load.coded = bucket.coded;
    load.group = bucket.group;
  }
  return loads;
}

namespace {

/// As predicted_seconds(), of the buckets from `first` to before `last`.
double predicted_seconds(const Situation& in, std::span<const Route> routes, std::size_t first, std::size_t last) {
  // The backward pass is about two thirds of the computation, and takes time in proportion to the parameters.
  const double forward = in.compute_seconds / 3;
  double all_bytes = 0;
  for (std::size_t b = first; b < last; ++b) all_bytes += in.buckets[b].dense_bytes;
  Server encoder;
  Server decoder;
  Server port;
  std::vector<Server> lanes(in.lanes + 1);
  const auto places = places_in_lanes(last - first, lanes.size());
  struct Arrival {
    double at = 0;
    double decode = 0;
  };
  std::vector<Arrival> arrivals;
  double codec_seconds = 0;
  double bytes = 0;
  for (std::size_t b = first; b < last; ++b) {
    bytes += in.buckets[b].dense_bytes;
    const double share = all_bytes == 0 || in.together ? 1 : bytes / all_bytes;
    const double ready = forward + share * (in.compute_seconds - forward);
    const Effort effort = effort_of(in, in.buckets[b], routes[b]);
    Server& lane = lanes[places[b - first].lane];
    const double waited = lane.serve(encoder.serve(ready, effort.encode), effort.latency);
    arrivals.push_back({.at = lane.serve(port.serve(waited, effort.port), 0), .decode = effort.decode});
    codec_seconds += effort.encode + effort.decode;
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::at);
  double end = in.compute_seconds;
  for (const Arrival& arrival : arrivals) end = std::max(end, decoder.serve(arrival.at, arrival.decode));
  // Without cores of their own the codec threads take their time from the computation.
  return in.own_cores ? end : std::max(end, in.compute_seconds + codec_seconds);
}

}  // namespace

double predicted_seconds(const Situation& in, std::span<const Route> routes) {
  double sum = 0;
  std::size_t groups = 0;
  for (std::size_t first = 0, last = 0; first < in.buckets.size(); first = last, ++groups) {
    while (last < in.buckets.size() && in.buckets[last].group == in.buckets[first].group) ++last;
    sum += predicted_seconds(in, routes, first, last);
  }
  return sum / static_cast<double>(groups);
}

std::vector<Plan> plans(const Situation& in) {
  std::vector<Plan> found;
  const auto add = [&](std::vector<Route> routes) {
    Plan plan{.routes = std::move(routes), .step_seconds = 0};
    plan.step_seconds = predicted_seconds(in, plan.routes);
    if (std::ranges::find(found, plan) == found.end()) found.push_back(std::move(plan));
  };
  for (const Form form : forms(in)) {
    for (const std::size_t place : {0, 1, 2}) {  // the model may be wrong about which topology is the best
      std::vector<Route> routes;
      for (const BucketLoad& bucket : in.buckets) {
        const auto best = best_routes(in, bucket, form);
        routes.push_back(best[std::min(place, best.size() - 1)]);
      }
      add(std::move(routes));
    }
  }
  const auto faster = [](const Plan& a, const Plan& b) { return a.step_seconds < b.step_seconds; };
  std::ranges::stable_sort(found, faster);

  // From the best uniform one, each bucket tries the other forms.
  std::vector<Route> mixed = found.front().routes;
  double best = found.front().step_seconds;
  for (std::size_t b = 0; b < mixed.size(); ++b) {
    for (const Form form : forms(in)) {
      const Route before = std::exchange(mixed[b], best_routes(in, in.buckets[b], form).front());
      const double seconds = predicted_seconds(in, mixed);
      if (seconds < best) {
        best = seconds;
      } else {
        mixed[b] = before;
      }
    }
  }
  add(std::move(mixed));
  std::ranges::stable_sort(found, faster);
  return found;
}

std::vector<Plan> plans_to_try(const Situation& in) {
  auto found = plans(in);
  const auto largest =
      static_cast<std::size_t>(std::ranges::max_element(in.buckets, {}, &BucketLoad::dense_bytes) - in.buckets.begin());
  const double slowest = worth_a_trial * found.front().step_seconds;
  // Of each form the best first: the model is more often wrong about what coding takes than about topologies.
  std::set<Form> seen;
  std::ranges::stable_partition(found, [&](const Plan& plan) { return seen.insert(plan.routes[largest].form).second; });
  std::erase_if(found, [&](const Plan& plan) { return plan.step_seconds > slowest; });
  found.resize(std::min(found.size(), trials_max));
  return found;
}

std::vector<Plan> plans_to_try(const Situation& situation, std::span<const BucketLoad> parameters,
                               std::span<const std::vector<Bucket>> layouts, std::size_t current) {
  Situation in = situation;
  const std::size_t best = in.compute_seconds > 0 ? best_layout(in, parameters, layouts) : current;
  in.buckets = loads_of(parameters, layouts[best]);
  std::vector<Plan> found = plans_to_try(in);
  for (Plan& plan : found) plan.layout = best;
  if (best == current) return found;
  in.buckets = loads_of(parameters, layouts[current]);
  Plan& kept = found.emplace_back(plans(in).front());
  kept.layout = current;
  return found;
}

std::size_t best_tried(std::span<const double> seconds) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i] * noise < seconds[best]) best = i;
  }
  return best;
}

std::size_t best_layout(Situation in, std::span<const BucketLoad> parameters,
                        std::span<const std::vector<Bucket>> layouts) {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    in.buckets = loads_of(parameters, layouts[i]);
    const double seconds = plans(in).front().step_seconds;
    if (seconds >= worth_more_messages * least) continue;
    least = seconds;
    best = i;
  }
  return best;
}

}  // namespace weir::training
