#include "api/traffic_json.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/exchange_plan.hpp"

namespace weir::api {
namespace {

using cluster::WorkerTraffic;
using nlohmann::json;
using protocol::ByteCounts;
using protocol::NamedTraffic;

json with_bytes(json object, const ByteCounts& bytes) {
  object["bytes_sent"] = bytes.sent;
  object["bytes_received"] = bytes.received;
  return object;
}

json named_json(const std::vector<NamedTraffic>& list) {
  json result = json::array();
  for (const auto& [name, bytes] : list) result.push_back(with_bytes({{"name", name}}, bytes));
  return result;
}

/// The sum over workers of lists with names, in the order in which the names appear first.
class Sum {
 public:
  void add(const std::vector<NamedTraffic>& list) {
    for (const auto& [name, bytes] : list) {
      const auto [place, is_new] = places_.try_emplace(name, list_.size());
      if (is_new) list_.push_back({name, {}});
      list_[place->second].bytes += bytes;
    }
  }
  const std::vector<NamedTraffic>& list() const { return list_; }

  /// Keeps those with most bytes, most first, and returns what the others have.
  ByteCounts keep(std::size_t most) {
    const auto all = [](const NamedTraffic& one) { return one.bytes.sent + one.bytes.received; };
    std::ranges::stable_sort(list_, [&](const auto& a, const auto& b) { return all(a) > all(b); });
    ByteCounts rest;
    for (; list_.size() > most; list_.pop_back()) rest += list_.back().bytes;
    return rest;
  }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<NamedTraffic> list_;
};

ByteCounts sum_of(const std::vector<protocol::LinkTraffic>& links) {
  ByteCounts all;
  for (const auto& link : links) all += link.bytes;
  return all;
}

json worker_json(const WorkerTraffic& worker) {
  return with_bytes({{"worker", worker.worker},
                     {"step", worker.totals.step},
                     {"phases", named_json(worker.totals.phases)},
                     {"tensors", named_json(worker.totals.tensors)},
                     {"rest", with_bytes(json::object(), worker.totals.rest)}},
                    sum_of(worker.totals.links));
}

/// The most links in one answer: those of 64 workers, each with each.
constexpr std::size_t links_max = 64 * 63;

struct Link {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::optional<std::uint64_t> sent;      ///< as the sender has counted
  std::optional<std::uint64_t> received;  ///< as the receiver has counted

  std::uint64_t most() const { return std::max(sent.value_or(0), received.value_or(0)); }
};

/// The links from worker to worker that moved something, by rank. A worker that has reported without naming a link has
/// moved nothing over it.
std::vector<Link> links_of(std::span<const WorkerTraffic> workers) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> all;
  for (const auto& worker : workers) {
    for (const auto& [rank, bytes] : worker.totals.links) {
      all[{worker.worker, rank}].sent = bytes.sent;
      all[{rank, worker.worker}].received = bytes.received;
    }
  }
  std::set<std::uint32_t> reported;
  for (const auto& worker : workers) reported.insert(worker.worker);
  std::vector<Link> links;
  for (auto& [ends, link] : all) {
    std::tie(link.from, link.to) = ends;
    if (reported.contains(link.from)) link.sent = link.sent.value_or(0);
    if (reported.contains(link.to)) link.received = link.received.value_or(0);
    if (link.most() > 0) links.push_back(link);
  }
  return links;
}

/// Keeps the links with most bytes and their order. Returns how many went.
std::size_t keep_busiest(std::vector<Link>& links) {
  if (links.size() <= links_max) return 0;
  const auto dropped = links.size() - links_max;
  std::ranges::stable_sort(links, std::ranges::greater(), &Link::most);
  links.resize(links_max);
  std::ranges::sort(links, {}, [](const Link& link) { return std::pair(link.from, link.to); });
  return dropped;
}

json links_json(const std::vector<Link>& links) {
  const auto or_null = [](const std::optional<std::uint64_t>& bytes) { return bytes ? json(*bytes) : json(nullptr); };
  json list = json::array();
  for (const auto& link : links) {
    list.push_back({{"from", link.from},
                    {"to", link.to},
                    {"bytes_sent", or_null(link.sent)},
                    {"bytes_received", or_null(link.received)}});
  }
  return list;
}

json plan_json(const protocol::ExchangePlan& plan) {
  const auto if_measured = [](double value) { return value > 0 ? json(value) : json(nullptr); };
  json routes = json::array();
  for (const auto& share : protocol::routes_of(plan)) {
    routes.push_back(
        {{"form", share.form}, {"topology", share.topology}, {"buckets", share.buckets}, {"bytes", share.bytes}});
  }
  json candidates = json::array();
  for (const auto& candidate : plan.candidates) {
    const auto& measured = candidate.measured_seconds;
    candidates.push_back({{"routes", candidate.routes},
                          {"predicted_seconds", candidate.predicted_seconds},
                          {"measured_seconds", measured ? json(*measured) : json(nullptr)},
                          {"followed", candidate.followed}});
  }
  return {{"step", plan.step + 1},
          {"reason", plan.reason},
          {"on_trial", protocol::is_on_trial(plan)},
          {"routes", std::move(routes)},
          {"latency_seconds", if_measured(plan.latency_seconds)},
          {"bytes_per_second", if_measured(plan.bytes_per_second)},
          {"candidates", std::move(candidates)}};
}

}  // namespace

json traffic_json(const std::string& job_id, std::span<const WorkerTraffic> workers) {
  Sum phases;
  Sum tensors;
  ByteCounts all;
  ByteCounts rest;
  json each = json::array();
  json plan;
  for (const auto& worker : workers) {
    if (worker.plan) plan = plan_json(*worker.plan);
    all += sum_of(worker.totals.links);
    phases.add(worker.totals.phases);
    tensors.add(worker.totals.tensors);
    rest += worker.totals.rest;
    each.push_back(worker_json(worker));
  }
  rest += tensors.keep(protocol::TrafficTotals::tensors_max);
  auto links = links_of(workers);
  const auto dropped = keep_busiest(links);
  return with_bytes({{"job", job_id},
                     {"links", links_json(links)},
                     {"links_dropped", dropped},
                     {"phases", named_json(phases.list())},
                     {"tensors", named_json(tensors.list())},
                     {"rest", with_bytes(json::object(), rest)},
                     {"workers", std::move(each)},
                     {"plan", std::move(plan)}},
                    all);
}

}  // namespace weir::api
