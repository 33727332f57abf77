#include "protocol/mode_fit.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "protocol/catalog_entries.hpp"
#include "protocol/differences.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;

/// Parts of the model that are exchanged one after the other: each needs steps of its own in the period, and those of a
/// delay, too.
void check_fragments(const json& params, std::vector<Problem>& problems) {
  if (!params.contains("fragments") || !params.contains("period")) return;
  const auto period = params.at("period").get<std::int64_t>();
  const auto fragments = params.at("fragments").get<std::int64_t>();
  if (fragments > period) {
    problems.push_back(
        {"/training/params/fragments", "must not be more than the steps of a period, " + std::to_string(period)});
    return;
  }
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
