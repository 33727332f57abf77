#include "protocol/mode_fit.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "protocol/catalog_entries.hpp"
#include "protocol/conditions.hpp"
#include "protocol/differences.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/roles.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;

/// What the schema has for a setting that is left out.
const json& default_of(const char* part, const std::string& name) {
  return job_spec_schema().at("properties").at(part).at("properties").at(name).at("default");
}

/// What the catalog has for a parameter that is left out; null if there is no such parameter.
json default_of_param(const json& entry, const char* name) {
  const json properties = entry.value("params", json::object()).value("properties", json::object());
  return properties.value(name, json::object()).value("default", json());
}

/// Whether what workers exchange is sent as it is.
bool is_uncompressed(const json& spec, const json& catalog) {
  const json* compressor = find_entry(catalog, "compressors", spec.at("compression").at("name").get<std::string>());
  return compressor != nullptr && compressor->value("traits", json::object()).value("lossless", false);
}

/// Parts of the model that are exchanged one after the other: each needs steps of its own in the period, and those of a
/// delay, too.
void check_fragments(const json& params, std::vector<Problem>& problems) {
  if (!params.contains("fragments") || !params.contains("period")) return;
  const auto period = params.at("period").get<std::int64_t>();
  const auto fragments = params.at("fragments").get<std::int64_t>();
  if (fragments > period) return;
  const std::int64_t between = period / fragments;
  if (params.value("delay", std::int64_t{0}) < between) return;
  problems.push_back({"/training/params/delay", "must be less than period / fragments, " + std::to_string(between) +
                                                    " steps, after which the next exchange begins"});
}

void check_backup_workers(const json& params, std::int64_t workers, std::vector<Problem>& problems) {
  if (!params.contains("backup_workers") || params.at("backup_workers").get<std::int64_t>() < workers) return;
  problems.push_back({"/training/params/backup_workers", "must be less than /resources/workers, which is " +
                                                             std::to_string(workers) +
                                                             ": a step takes the gradient of one worker at least"});
}

/// A connected graph in which all have that many neighbours.
void check_degree(const json& params, std::int64_t workers, std::vector<Problem>& problems) {
  if (params.value("graph", "") != "random_regular" || !params.contains("degree")) return;
  const auto degree = params.at("degree").get<std::int64_t>();
  const std::string of = " of the " + std::to_string(workers) + " workers";
  std::string problem;
  if (degree >= workers) {
    problem = "each" + of + " has only " + std::to_string(workers - 1) + " others";
  } else if (degree % 2 == 1 && workers % 2 == 1) {
    problem = "the degree or the number" + of + " must be even";
  } else if (degree < std::min<std::int64_t>(workers - 1, 2)) {
    problem = "the graph" + of + " is connected from a degree of 2 on";
  }
  if (!problem.empty()) problems.push_back({"/training/params/degree", problem});
}

/// Why what the workers agree on is no mean of gradients, whose norm and entries a limit is about; empty if it is one.
std::string no_mean_of_gradients(const json& spec, const json& catalog) {
  const std::string what = exchanged(spec, catalog);
  if (what == "pushes") return "servers apply each worker's by itself";
  if (what == "differences" || what == "models") return "workers make steps with their own, and exchange models";
  if (what == "nothing") return {};
  const json& part = spec.at("compression");
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  if (compressor != nullptr) {
    const std::string name = "compressor \"" + compressor->value("name", "") + "\"";
    if (fits_of(*compressor, part.at("params")).value("votes", false)) {
      return "with " + name + " they agree on signs, however large their gradients are";
    }
    if (compressor->value("traits", json::object()).value("owns_momentum", false)) {
      return name + " adds up gradients in its momentum, and sends that";
    }
  }
  if (part.at("memory").is_null()) return {};
  const json* memory = find_entry(catalog, "memories", part.at("memory").get<std::string>());
  if (memory == nullptr || !memory->value("owns_momentum", false)) return {};
  return "memory \"" + memory->value("name", "") + "\" adds up gradients in the momentum, and sends that";
}

}  // namespace

std::vector<Problem> check_neighbours(const json& spec, const json& catalog) {
  if (exchanged(spec, catalog) != "models") return {};
  const json& part = spec.at("compression");
  const std::string misfit = "\" does not fit training mode \"" + spec.at("training").at("mode").get<std::string>() +
                             "\", whose workers exchange with neighbours: ";
  std::vector<Problem> problems;
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  if (compressor != nullptr) {
    const json fits = fits_of(*compressor, part.at("params"));
    if (const auto reason = fits.find("neighbours_misfit"); reason != fits.end()) {
      problems.push_back(
          {"/compression/name", "compressor \"" + compressor->value("name", "") + misfit + reason->get<std::string>()});
    }
  }
  const auto only = [&](const char* name, const std::string& noun, const char* value, const std::string& reason) {
    if (!part.contains(name) || part.at(name).is_null() || part.at(name) == value) return;
    problems.push_back({std::string("/compression/") + name, noun + " \"" + part.at(name).get<std::string>() + misfit +
                                                                 reason + "; it takes [\"" + value + "\"]"});
  };
  only("memory", "memory", "none", "what was not sent is still in the difference to what the neighbours know");
  only("apply_to", "apply_to", "gradients",
       "they mix parameters in any case, and statistics of batches stay each worker's own");
  return problems;
}

std::vector<Problem> check_pushes(const json& spec, const json& catalog) {
  const json& part = spec.at("compression");
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  if (compressor == nullptr || part.at("memory").is_null() || exchanged(spec, catalog) != "pushes") return {};
  const json* memory = find_entry(catalog, "memories", part.at("memory").get<std::string>());
  const std::string misfit = "\" does not fit training mode \"" + spec.at("training").at("mode").get<std::string>() +
                             "\", whose workers push gradients to servers: ";
  const json fits = fits_of(*compressor, part.at("params"));
  std::vector<Problem> problems;
  if (part.value("apply_to", "gradients") != "gradients") {
    problems.push_back({"/compression/apply_to", "\"models" + misfit + "the model is theirs; it takes \"gradients\""});
  }
  if (const auto reason = fits.find("pushes_misfit"); reason != fits.end()) {
    problems.push_back(
        {"/compression/name", "compressor \"" + compressor->value("name", "") + misfit + reason->get<std::string>()});
  }
  if (memory == nullptr) return problems;
  if (const auto reason = memory->find("pushes_misfit"); reason != memory->end()) {
    problems.push_back(
        {"/compression/memory", "memory \"" + memory->value("name", "") + misfit + reason->get<std::string>()});
  }
  return problems;
}

std::vector<Problem> check_settings_without_effect(const json& spec, const json& catalog) {
  const std::string what = exchanged(spec, catalog);
  const std::string mode = "training mode \"" + spec.at("training").at("mode").get<std::string>() + "\"";
  std::vector<Problem> problems;
  if (what == "nothing") {
    const json& part = spec.at("compression");
    const auto only = [&](const char* name, const char* value) {
      if (part.value(name, value) == value) return;
      problems.push_back({std::string("/compression/") + name,
                          mode + " has one worker, whose values are used as they are; it takes \"" + value + "\""});
    };
    only("apply_to", "gradients");
    only("aggregation", "mean");
    if (spec.at("exchange").value("transport", "auto") != "auto") {
      problems.push_back({"/exchange/transport", mode + " exchanges nothing; it takes \"auto\""});
    }
    if (limits_links(spec)) {
      problems.push_back({"/training/params/link_rate", mode + " exchanges nothing: leave it out"});
    }
  }
  std::string why;
  if (what == "nothing") why = " exchanges nothing";
  if (what == "pushes") why = "'s workers push each tensor by itself";
  if (what == "models" && is_uncompressed(spec, catalog)) why = " mixes uncompressed models as a whole";
  const json usual = default_of("exchange", "bucket_bytes");
  if (!why.empty() && spec.at("exchange").value("bucket_bytes", usual) != usual) {
    problems.push_back({"/exchange/bucket_bytes", mode + why + ", not in buckets: leave it out"});
  }
  return problems;
}

std::vector<Problem> check_learning_rate(const json& spec, const json& catalog) {
  const json& training = spec.at("training");
  const json& params = training.at("params");
  const json& optimizer = training.at("optimizer");
  if (!params.is_object() || params.value("local_lr", json()).is_null()) return {};
  const json* entry = find_entry(catalog, "optimizers", optimizer.at("name").get<std::string>());
  if (entry == nullptr || !optimizer.contains("lr") || optimizer.at("lr") == default_of_param(*entry, "lr")) return {};
  return {{"/training/optimizer/lr",
           "has no effect here: /training/params/local_lr takes its place; leave out one of the two"}};
}

std::vector<Problem> check_momentum(const json& spec, const json& catalog) {
  const json& optimizer = spec.at("training").at("optimizer");
  const json* entry = find_entry(catalog, "optimizers", optimizer.at("name").get<std::string>());
  const std::string owner = owner_of_momentum(spec, catalog);
  if (entry == nullptr || owner.empty() || !entry->value("yields_momentum", true)) return {};
  std::vector<Problem> problems;
  for (const auto& [name, none] : {std::pair("momentum", json(0)), std::pair("nesterov", json(false))}) {
    const json given = optimizer.value(name, none);
    if (given == none || given == default_of_param(*entry, name)) continue;
    problems.push_back({std::string("/training/optimizer/") + name, "has no effect here: " + owner + "; leave it out"});
  }
  return problems;
}

std::string owner_of_momentum(const json& spec, const json& catalog) {
  const json& part = spec.at("compression");
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  const json* memory =
      part.at("memory").is_null() ? nullptr : find_entry(catalog, "memories", part.at("memory").get<std::string>());
  if (memory != nullptr) {
    const auto own = params_of_own_momentum(*memory, part.at("memory_params"));
    if (!own.empty()) {
      return "memory \"" + memory->value("name", "") + "\" has a momentum in place of the optimizer's, unless \"" +
             own.front() + "\" among its parameters is left out";
    }
  }
  if (compressor == nullptr || !compressor->value("traits", json::object()).value("owns_momentum", false)) return {};
  return "compressor \"" + compressor->value("name", "") + "\" has a momentum in place of the optimizer's";
}

std::vector<Problem> check_role_resources(const json& spec, const json& mode) {
  std::vector<Problem> problems;
  for (const Role role : all_roles) {
    if (role == Role::worker) continue;
    const std::string name(to_string(role));
    const std::string key = "per_" + name;
    const json& each = spec.at("resources").at(key);
    if (!mode.value("roles", json::object()).contains(name)) {
      if (each == default_of("resources", key)) continue;
      problems.push_back({"/resources/" + key, "training mode \"" + mode.value("name", "") +
                                                   "\" has no process of the role \"" + name + "\": leave it out"});
    } else if (each.value("gpu", 0.0) > 0) {
      problems.push_back({"/resources/" + key + "/gpu",
                          "a process of the role \"" + name + "\" computes on processors: leave it out"});
    }
  }
  return problems;
}

std::vector<Problem> complete_clip(json& spec, const json& catalog) {
  const std::string reason = no_mean_of_gradients(spec, catalog);
  json& clip = spec.at("training").at("clip");
  json& where = clip.at("where");
  if (where.is_null()) where = reason.empty() ? "global" : "local";
  if (reason.empty() || where == "local" || (clip.at("norm").is_null() && clip.at("value").is_null())) return {};
  return {{"/training/clip/where", "\"global\" limits the mean of the workers' gradients, and this job has none: " +
                                       reason + "; it takes \"local\""}};
}

std::vector<Problem> check_mode_params(const json& spec) {
  const json& params = spec.at("training").at("params");
  const auto workers = spec.at("resources").at("workers").get<std::int64_t>();
  std::vector<Problem> problems;
  check_fragments(params, problems);
  check_degree(params, workers, problems);
  check_backup_workers(params, workers, problems);
  return problems;
}

std::vector<Problem> check_adaptation(const json& spec, const json& catalog) {
  const json& params = spec.at("training").at("params");
  if (!params.is_object() || params.value("adapt_compression", json()) != true) return {};
  const std::string topology = spec.at("exchange").at("topology");
  const json* links = find_entry(catalog, "topologies", topology);
  if (links != nullptr && links->value("on_devices", false)) {
    return {{"/training/params/adapt_compression",
             "does not fit topology \"" + topology +
                 "\": it goes by how fast the workers' sockets are, and gradients do not take them; leave it out"}};
  }
  const std::string name = spec.at("compression").at("name");
  const json* compressor = find_entry(catalog, "compressors", name);
  if (compressor == nullptr || compressor->value("traits", json::object()).value("thins", false)) return {};
  json fitting = json::array();
  for (const json& one : catalog.at("compressors")) {
    if (one.value("traits", json::object()).value("thins", false)) fitting.push_back(one.at("name"));
  }
  return {{"/training/params/adapt_compression",
           "does not fit compressor \"" + name +
               "\": what it sends of a tensor is not so many entries, of which a worker could send fewer; it takes " +
               fitting.dump()}};
}

}  // namespace weir::protocol
