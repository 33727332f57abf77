#include "bench/scaling.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <utility>

#include "base/errc.hpp"
#include "bench/coding_costs.hpp"
#include "bench/layers.hpp"
#include "bench/scaling_cell.hpp"
#include "collectives/transports/in_process.hpp"
#include "training/exchange/coding_probe.hpp"
#include "training/exchange/link_probe.hpp"
#include "training/exchange/stopwatch.hpp"

namespace weir::bench {
namespace {

using nlohmann::json;

/// The dense ones first, of which the others' `auto` may choose.
constexpr std::array compressors_compared{"none", "bf16", "dgc", "qsgd", "terngrad", "signsgd", "powersgd"};

std::string number(double value) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

/// What does not depend on the compressor, in seconds per byte.
struct MemoryCosts {
  double copy = 0;     ///< of putting floats into a bucket, and of taking them out
  double combine = 0;  ///< of adding received floats to own ones
  collectives::PackingCosts packing;
};

Result<MemoryCosts> measure_memory() {
  const auto alone = collectives::in_process_group(1);
  const auto links = training::measure_links(*alone.front());
  if (!links) return links.error();
  return MemoryCosts{.copy = training::measure_copy(),
                     .combine = links->links.combine_seconds_per_byte,
                     .packing = links->links.packing};
}

struct Link {
  double gigabits = 0;
  double latency_ms = 0;
};

/// A cell and what it is called.
struct Place {
  const LayerList* model;
  std::uint32_t ranks;
  Link link;

  std::string name() const {
    return model->name + "/" + std::to_string(ranks) + "/" + number(link.gigabits) + "gbit/" + number(link.latency_ms) +
           "ms";
  }
};

class Bench {
 public:
  explicit Bench(const ScalingOptions& options) : options_(options) {}

  Result<void> run() {
    if (auto read = read_costs(); !read) return read;
    if (auto set = take_memory_costs(); !set) return set;
    std::vector<Place> places;
    for (const LayerList& model : layer_lists()) {
      const auto of_model = places_of(model);
      const std::string costs = "costs/" + model.name;
      if (of_model.empty() && !wanted(costs)) continue;
      if (auto done = take_coding_costs(model); !done) return done;
      places.insert(places.end(), of_model.begin(), of_model.end());
    }
    return simulate(places);
  }

 private:
  bool wanted(const std::string& name) const { return std::regex_search(name, filter_); }

  std::vector<Place> places_of(const LayerList& model) const {
    std::vector<Place> places;
    for (const auto ranks : options_.ranks) {
      for (const double gigabits : options_.gigabits) {
        for (const double latency : options_.latencies_ms) {
          Place place{.model = &model, .ranks = ranks, .link = {.gigabits = gigabits, .latency_ms = latency}};
          if (wanted(place.name())) places.push_back(place);
        }
      }
    }
    return places;
  }

  Result<void> read_costs() {
    if (options_.costs.empty()) return {};
    std::ifstream file(options_.costs);
    for (std::string line; std::getline(file, line);) {
      const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!row.is_object() || !row.contains("name") || !row.contains("metrics") || !row["name"].is_string()) {
        return Error{Errc::malformed, options_.costs + ": a line is not a row"};
      }
      rows_[row["name"].get<std::string>()] = row["metrics"];
    }
    return {};
  }

  Result<void> take_memory_costs() {
    const std::string name = "costs/memory";
    if (const auto row = rows_.find(name); row != rows_.end()) {
      try {
        memory_ = {.copy = row->second.at("copy_seconds_per_byte"),
                   .combine = row->second.at("combine_seconds_per_byte"),
                   .packing = {.pack_seconds_per_byte = row->second.at("pack_seconds_per_byte"),
                               .unpack_seconds_per_byte = row->second.at("unpack_seconds_per_byte")}};
      } catch (const json::exception& error) {
        return Error{Errc::malformed, options_.costs + ": " + name + ": " + error.what()};
      }
    } else {
      auto measured = measure_memory();
      if (!measured) return measured.error();
      memory_ = *measured;
    }
    const json metrics{{"copy_seconds_per_byte", memory_.copy},
                       {"combine_seconds_per_byte", memory_.combine},
                       {"pack_seconds_per_byte", memory_.packing.pack_seconds_per_byte},
                       {"unpack_seconds_per_byte", memory_.packing.unpack_seconds_per_byte},
                       {"packed_share_float32", collectives::usual_packed_share(collectives::Element::float32)},
                       {"packed_share_bfloat16", collectives::usual_packed_share(collectives::Element::bfloat16)}};
    if (options_.common.json) return print({{"bench", "scaling"}, {"name", name}, {"metrics", metrics}});
    std::printf("copying %.3g ns/B, adding %.3g ns/B, packing %.3g ns/B, unpacking %.3g ns/B\n", 1e9 * memory_.copy,
                1e9 * memory_.combine, 1e9 * memory_.packing.pack_seconds_per_byte,
                1e9 * memory_.packing.unpack_seconds_per_byte);
    return {};
  }

  /// Of all compressors, for all sizes of the group.
  Result<void> take_coding_costs(const LayerList& model) {
    for (const std::string compressor : compressors_compared) {
      const std::string name = "costs/" + model.name + "/" + compressor;
      const auto row = rows_.find(name);
      const auto costs = row == rows_.end() ? CodingCosts::measure(model, compressor)
                                            : CodingCosts::from(row->second, model, compressor);
      if (!costs) return costs.error().within(name);
      for (const auto ranks : options_.ranks) ways_[{&model, ranks}].push_back(costs->way(ranks));
      const json metrics = costs->to_json();
      if (options_.common.json) {
        print({{"bench", "scaling"},
               {"name", name},
               {"case", {{"model", model.name}, {"compressor", compressor}, {"threads", 1}}},
               {"metrics", metrics}});
      } else {
        std::printf("%-24s encode %8.2f ms, decode %8.3f ms, payload %12.0f B\n", name.c_str(),
                    1e3 * metrics.at("encode_seconds").get<double>(), 1e3 * metrics.at("decode_seconds").get<double>(),
                    metrics.at("payload_bytes").get<double>());
      }
    }
    return {};
  }

  Result<void> simulate(const std::vector<Place>& places) {
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::size_t done = 0;
    Result<void> result;
    const auto work = [&] {
      for (std::size_t i = next++; i < places.size(); i = next++) {
        const training::Stopwatch watch;
        const auto times = times_of(places[i]);
        const std::lock_guard lock(mutex);
        if (!times) {
          result = times.error().within(places[i].name());
          next = places.size();
          return;
        }
        print(places[i], *times);
        std::fprintf(stderr, "%zu of %zu: %s, %.1f s\n", ++done, places.size(), places[i].name().c_str(),
                     watch.seconds());
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t i = 1; i < options_.threads; ++i) threads.emplace_back(work);
      work();
    }
    return result;
  }

  double compute_seconds(const LayerList& model) const {
    return options_.compute_ms ? 1e-3 * *options_.compute_ms : model.compute_seconds;
  }

  Result<std::vector<WayTimes>> times_of(const Place& place) const {
    const Cell cell{.ranks = place.ranks,
                    .links = {.latency_seconds = 1e-3 * place.link.latency_ms,
                              .seconds_per_byte = 8e-9 / place.link.gigabits,
                              .combine_seconds_per_byte = memory_.combine,
                              .packing = memory_.packing},
                    .compute_seconds = compute_seconds(*place.model),
                    .dense_seconds_per_byte = memory_.copy,
                    .frames_max = options_.frames_max};
    return times_in(cell, ways_.at({place.model, place.ranks}));
  }

  static json to_json(const StepTime& step) {
    return {{"seconds", step.seconds},
            {"predicted_seconds", step.predicted},
            {"routes", step.name},
            {"simulated", step.simulated}};
  }

  void print(const Place& place, const std::vector<WayTimes>& all) const {
    if (!options_.common.json) {
      std::printf("%s\n", place.name().c_str());
      for (const WayTimes& way : all) {
        std::printf("  %-9s %10.2f ms%s %-13s auto %10.2f ms%s %5.2f of the best choice, %zu plans: %s\n",
                    way.compressor.c_str(), 1e3 * way.fixed.seconds, way.fixed.simulated ? " " : "~",
                    way.fixed.name.c_str(), 1e3 * way.automatic.seconds, way.automatic.simulated ? " " : "~",
                    way.automatic.seconds / way.best_choice, way.plans_tried, way.automatic.name.c_str());
      }
      std::fflush(stdout);
      return;
    }
    json ways = json::object();
    for (const WayTimes& way : all) {
      json choices = json::object();
      for (const StepTime& choice : way.choices) choices[choice.name] = to_json(choice);
      ways[way.compressor] = {{"fixed", to_json(way.fixed)},
                              {"auto", to_json(way.automatic)},
                              {"choices", choices},
                              {"auto_over_best_choice", way.automatic.seconds / way.best_choice},
                              {"predicted_first_seconds", way.predicted_first},
                              {"plans_tried", way.plans_tried}};
    }
    print({{"bench", "scaling"},
           {"name", place.name()},
           {"case",
            {{"model", place.model->name},
             {"ranks", place.ranks},
             {"gigabits", place.link.gigabits},
             {"latency_ms", place.link.latency_ms},
             {"compute_seconds", compute_seconds(*place.model)}}},
           {"metrics", {{"ways", ways}}}});
  }

  static Result<void> print(const json& row) {
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
    return {};
  }

  const ScalingOptions& options_;
  const std::regex filter_{options_.common.filter};
  std::map<std::string, json> rows_;  ///< of the earlier run: their metrics by name
  MemoryCosts memory_;
  std::map<std::pair<const LayerList*, std::uint32_t>, std::vector<Way>> ways_;  ///< by model and ranks
};

}  // namespace

int scaling(const ScalingOptions& options) {
  at::set_num_threads(1);
  const auto done = Bench(options).run();
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().message().c_str());
  return done.error().code == Errc::malformed ? 2 : 1;
}

}  // namespace weir::bench
