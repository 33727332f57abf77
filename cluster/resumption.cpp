#include "cluster/resumption.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cluster/forecast.hpp"
#include "protocol/catalog_entries.hpp"
#include "protocol/differences.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;

/// A part of a spec that has to be as in the other job, but for what no state depends on.
struct BoundPart {
  std::string pointer;
  json value;
  std::string but = {};  ///< what is left out of `value`, for people
};

json without(json object, std::span<const std::string_view> names) {
  for (const auto name : names) object.erase(std::string(name));
  return object;
}

/// The parts of a spec that what a checkpoint has depends on.
std::vector<BoundPart> bound_parts(const json& spec) {
  // Steps are multiplied by them; momenta and moments go on with whatever they are.
  constexpr std::array<std::string_view, 2> rates = {"lr", "weight_decay"};
  const json& training = spec.at("training");
  json compression = spec.at("compression");
  compression["params"] = without(std::move(compression["params"]), warmup_params);
  return {{"/model", spec.at("model")},
          {"/compression", std::move(compression), ", but for the parameters of its warm-up"},
          {"/training/mode", training.at("mode")},
          {"/training/optimizer", without(training.at("optimizer"), rates), ", but for lr and weight_decay"},
          // Servers count steps in pushes, of which this is how many a step has.
          {"/training/params/backup_workers", training.at("params").value("backup_workers", json())}};
}

/// How the examples of a job change the model: the first parameter that has another shape than before, and both shapes.
/// Nothing if none has, or if only files would tell.
std::optional<std::string> shapes_differ(const protocol::TrainingShape& before, const protocol::TrainingShape& now) {
  for (const auto& old : before.parameters) {
    const auto same = std::ranges::find(now.parameters, old.name, &protocol::ParameterShape::name);
    if (same == now.parameters.end() || *same == old) continue;
    return "\"" + old.name + "\" is " + protocol::extents_text(old.extents) + " there and would be " +
           protocol::extents_text(same->extents) + " here";
  }
  return std::nullopt;
}

std::uint64_t step_of(const KnownJob& job, const Origin& origin) {
  return job.parsed.resume_from->step.value_or(origin.checkpoints.back().step);
}

std::optional<StepCount> steps_of(const KnownJob& job, const json& catalog) {
  return job.shape == nullptr ? std::nullopt : count_steps(job.parsed, *job.shape, catalog);
}

/// Whether the workers keep sums over their neighbours in a graph: where they send them compressed differences.
bool keeps_sums_over_neighbours(const json& spec, const json& catalog) {
  const json* compressor =
      protocol::find_entry(catalog, "compressors", spec.at("compression").at("name").get<std::string>());
  return protocol::exchanged(spec, catalog) == "models" && compressor != nullptr &&
         !compressor->value("traits", json::object()).value("lossless", false);
}

/// The graph of a job's workers: its name, and what else determines a random one.
std::string graph_text(const json& spec) {
  const json& training = spec.at("training");
  const json& params = training.at("params");
  const std::string graph = params.value("graph", "");
  std::string text = "\"" + graph + "\"";
  if (graph == "random_regular") {
    text += " with degree " + params.at("degree").dump() + " and training.seed " + training.at("seed").dump();
  }
  return text;
}

/// How many workers own shares, if the topology has owners.
std::uint32_t owners_of(const protocol::JobSpec& spec) {
  const std::uint32_t workers = spec.resources.workers;
  return spec.exchange.servers == 0 ? workers : std::min(spec.exchange.servers, workers);
}

/// Whether owners of shares have left something out of their means that nobody would send here: without a memory, only
/// owners of the same shares can. With the topology `auto` it is not known who owns what, and the workers find out.
bool leaves_residuals_behind(const KnownJob& job, const protocol::JobSpec& before, const json& catalog) {
  const auto& now = job.parsed;
  const json* from = protocol::find_entry(catalog, "topologies", before.exchange.topology);
  const json* to = protocol::find_entry(catalog, "topologies", now.exchange.topology);
  const json* compressor = protocol::find_entry(catalog, "compressors", now.compression.compressor.name);
  if (from == nullptr || to == nullptr || compressor == nullptr || to->value("automatic", false)) return false;
  const std::string gathers = from->value("gathers", "all");
  if (gathers == "all" || now.compression.memory.name != "none") return false;
  const json fits = protocol::fits_of(*compressor, now.compression.compressor.params);
  if (!fits.value("owners_keep_residual", false)) return false;
  return to->value("gathers", "all") != gathers || owners_of(now) != owners_of(before) ||
         now.exchange.bucket_bytes != before.exchange.bucket_bytes;
}

/// Of the compressor of a job that goes on from another one.
struct Warmup {
  bool was_over = false;  ///< there
  std::uint64_t end = 0;  ///< the step until which it lasts here
};

/// Exchanges, where the warm-up lasts for a number of these, are counted over both jobs, however long their periods
/// are. Without periods nothing is known of it.
Warmup warmup_of(const KnownJob& job, const StepCount& now, const KnownJob& other, const StepCount& before,
                 std::uint64_t step, const json& catalog) {
  const json& params = job.parsed.compression.compressor.params;
  if (!params.contains("start_step")) return {before.warmup <= step, now.warmup};
  const auto here = exchanges_of(job.parsed, now.per_epoch, catalog);
  const auto there = exchanges_of(other.parsed, before.per_epoch, catalog);
  if (!here || !there) return {};
  const auto made = static_cast<double>(there->made_by(step));
  const double left = params.value("start_step", 0.0) - made;
  const double end = left > 0 ? here->steps_of(static_cast<double>(here->made_by(step)) + left) : 0;
  return {other.parsed.compression.compressor.params.value("start_step", 0.0) <= made,
          end < static_cast<double>(now.total) ? static_cast<std::uint64_t>(end) : now.total};
}

/// The epoch after so many steps.
std::string epoch_text(std::uint64_t step, std::uint64_t steps_per_epoch) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", static_cast<double>(step) / static_cast<double>(steps_per_epoch));
  return text;
}

}  // namespace

std::vector<protocol::Problem> problems_of_resuming(const KnownJob& job, const Origin& origin, const json& catalog) {
  std::vector<protocol::Problem> problems;
  const std::string resume_from = "/checkpoint/resume_from";
  const std::uint64_t step = step_of(job, origin);
  const auto steps = steps_of(job, catalog);
  if (std::ranges::find(origin.checkpoints, step, &CheckpointRecord::step) == origin.checkpoints.end()) {
    problems.push_back(
        {resume_from + "/step", "job " + origin.id + " has no checkpoint at step " + std::to_string(step)});
  } else if (steps && steps->total <= step) {
    problems.push_back({resume_from + "/step", "the checkpoint is of step " + std::to_string(step) +
                                                   ", and this job ends after " + std::to_string(steps->total) +
                                                   ": ask for more epochs, or more steps, or an earlier one"});
  }
  const auto parts = bound_parts(job.spec);
  const auto parts_before = bound_parts(origin.job.spec);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].value == parts_before[i].value) continue;
    problems.push_back({resume_from, parts[i].pointer + " must be as in job " + origin.id + parts[i].but});
  }
  if (problems.empty() && keeps_sums_over_neighbours(job.spec, catalog) &&
      graph_text(job.spec) != graph_text(origin.job.spec)) {
    problems.push_back({"/training/params/graph",
                        "with a compressor each worker has a sum over its neighbours in the checkpoint, so that the "
                        "graph must be as in job " +
                            origin.id + ": " + graph_text(origin.job.spec)});
  }
  if (problems.empty() && leaves_residuals_behind(job, origin.job.parsed, catalog)) {
    problems.push_back({"/exchange",
                        "without a memory nobody else can send what the owners of shares have left out of their means: "
                        "topology, params and bucket_bytes must be as in job " +
                            origin.id});
  }
  if (problems.empty() && job.shape != nullptr && origin.job.shape != nullptr) {
    if (const auto differ = shapes_differ(*origin.job.shape, *job.shape)) {
      problems.push_back(
          {resume_from, "/dataset must have examples of the shape that job " + origin.id + "'s have: " + *differ});
    }
  }
  const auto& groups = job.parsed.resources.groups;
  if (const auto differ = protocol::groups_differ(origin.job.parsed.resources.groups, groups)) {
    problems.push_back({resume_from, *differ});
  }
  return problems;
}

std::vector<Warning> warnings_of_resuming(const KnownJob& job, const Origin& origin, const json& catalog) {
  const auto now = steps_of(job, catalog);
  const auto before = steps_of(origin.job, catalog);
  if (!now || !before || now->per_epoch == 0 || before->per_epoch == 0) return {};
  std::vector<Warning> warnings;
  const std::uint64_t step = step_of(job, origin);
  const std::string here = epoch_text(step, now->per_epoch);
  const std::string there = epoch_text(step, before->per_epoch);
  if (here != there) {
    warnings.push_back({"/training/batch_size", "the checkpoint's step " + std::to_string(step) + " is epoch " + there +
                                                    " there and " + here +
                                                    " here: schedules and warm-ups go by the latter"});
  }
  const auto warmup = warmup_of(job, *now, origin.job, *before, step, catalog);
  if (warmup.was_over && step < warmup.end) {
    const bool in_epochs = job.parsed.compression.compressor.params.contains("warmup_epochs");
    warnings.push_back({std::string("/compression/params/") + (in_epochs ? "warmup_epochs" : "start_step"),
                        "the compressor's warm-up was over there at the checkpoint's step " + std::to_string(step) +
                            ", and here it lasts until step " + std::to_string(warmup.end) +
                            ": until then less is compressed; set 0 to go on without"});
  }
  return warnings;
}

}  // namespace weir::cluster
