#include "cluster/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "protocol/catalog_entries.hpp"
#include "protocol/epochs.hpp"
#include "protocol/parameter_groups.hpp"
#include "protocol/schema.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;

/// How often each entry of the gradient should be sent after the warm-up: below that, much of what is learned is lost.
constexpr double sends_per_entry_min = 5;

json compressor_entry(const protocol::JobSpec& spec, const json& catalog) {
  for (const auto& entry : catalog.value("compressors", json::array())) {
    if (entry.value("name", "") == spec.compression.compressor.name) return entry;
  }
  return json::object();
}

json topology_entry(const protocol::JobSpec& spec, const json& catalog) {
  for (const auto& entry : catalog.value("topologies", json::array())) {
    if (entry.value("name", "") == spec.exchange.topology) return entry;
  }
  return json::object();
}

/// What the workers exchange, as the catalog has it of the mode; empty if it has not.
std::string exchanged_by_mode(const protocol::JobSpec& spec, const json& catalog) {
  const json* mode = protocol::find_entry(catalog, "modes", spec.training.mode.name);
  return mode == nullptr ? "" : mode->value("exchanges", "");
}

/// Whether the workers exchange with all others, and not with neighbours or servers.
bool exchanges_with_all(const protocol::JobSpec& spec, const json& catalog) {
  const std::string exchanges = exchanged_by_mode(spec, catalog);
  return exchanges != "models" && exchanges != "pushes";
}

/// Into how many parts of about the same size a mode divides the parameters, of which each exchange has one.
double parts_of_model(const protocol::JobSpec& spec, const protocol::TrainingShape& shape) {
  const auto fragments = spec.training.mode.params.value("fragments", std::uint64_t{1});
  return static_cast<double>(std::min<std::uint64_t>(fragments, shape.parameters.size()));
}

/// How many workers' gradients make a step: in a mode with backup workers, all but theirs.
std::uint64_t gradients_per_step(const protocol::JobSpec& spec) {
  const std::uint64_t workers = spec.resources.workers;
  const auto backup = spec.training.mode.params.value("backup_workers", std::uint64_t{0});
  return backup < workers ? workers - backup : workers;
}

/// The bytes that a rank sends for `entries` that go through the dense ring.
double dense_bytes(double entries, double world) { return 2 * (world - 1) / world * sizeof(float) * entries; }

/// The bits that a rank sends per entry, computed from what the catalog states for compressors with default parameters:
/// 2 (P-1)/P times the bits that the ring sums, P-1 times those that it gathers. If that is more than the dense ring
/// sends, a compressor that can go dense does so. In an exchange by owners, gathered bits are sent as often as summed
/// ones, on the average over the workers. A ratio other than the default scales the bits; for other changed
/// parameters nothing is known.
std::optional<double> wire_bits(const protocol::JobSpec& spec, const json& entry, bool by_owners) {
  const json traits = entry.value("traits", json::object());
  if (!traits.contains("wire_bits")) return std::nullopt;
  double scale = 1;
  for (const auto& [name, value] : spec.compression.compressor.params.items()) {
    const json& usual = entry.at("params").at("properties").at(name).at("default");
    if (value == usual) continue;
    if (name != "ratio") return std::nullopt;
    scale = value.get<double>() / usual.get<double>();
  }
  const double world = spec.resources.workers;
  const double summed = scale * traits.at("wire_bits").at("summed").get<double>();
  const double gathered = scale * traits.at("wire_bits").at("gathered").get<double>();
  constexpr double dense = 32;
  const double copies = by_owners ? 2 : world;
  const bool goes_dense = traits.value("goes_dense", false) && 2 * summed + copies * gathered > 2 * dense;
  return 2 * (world - 1) / world * (goes_dense ? dense : summed + copies / 2 * gathered);
}

/// Whether the learning rate comes down by the last step: for the workers Schedule::falls() says it.
bool rate_falls(const protocol::JobSpec& spec, const json& catalog, std::uint64_t steps_per_epoch,
                std::uint64_t steps_total) {
  const json* schedule = protocol::find_entry(catalog, "lr_schedules", spec.training.lr_schedule.name);
  if (schedule == nullptr || !schedule->value("falls", false)) return false;
  const json& params = spec.training.lr_schedule.params;
  if (params.value("gamma", 0.0) == 1) return false;
  const auto in_steps = [&](const json& epochs) {
    return protocol::fractional_steps(epochs.get<double>(), steps_per_epoch);
  };
  const double last_step = static_cast<double>(steps_total) - 1;
  const auto falls_after = [&](const json& epochs) { return in_steps(epochs) <= last_step; };
  if (const auto milestones = params.find("milestones"); milestones != params.end()) {
    return std::ranges::any_of(*milestones, falls_after);
  }
  if (const auto epochs = params.find("epochs"); epochs != params.end()) return falls_after(*epochs);
  return in_steps(params.value("warmup_epochs", json(0))) < last_step;
}

/// The length of the warm-up in steps, with a fraction: 0 if it is not known. If its epochs are left open, it takes the
/// share of the training that the catalog states for its kind of learning rate.
double warmup_steps(const protocol::JobSpec& spec, const json& catalog, std::uint64_t steps_per_epoch,
                    std::uint64_t steps_total) {
  const auto& params = spec.compression.compressor.params;
  const auto epochs = params.find("warmup_epochs");
  if (epochs == params.end()) {
    const auto exchanges = exchanges_of(spec, steps_per_epoch, catalog);
    return exchanges ? exchanges->steps_of(params.value("start_step", 0.0)) : 0;
  }
  if (epochs->is_number()) return protocol::fractional_steps(epochs->get<double>(), steps_per_epoch);
  const json traits = compressor_entry(spec, catalog).value("traits", json::object());
  const json usual = traits.value("usual_warmup", json::object());
  const bool falls = rate_falls(spec, catalog, steps_per_epoch, steps_total);
  const double share = usual.value(falls ? "share_where_rate_falls" : "share", 0.0);
  return std::min(share * static_cast<double>(steps_total),
                  protocol::fractional_steps(usual.value("epochs_max", 0.0), steps_per_epoch));
}

/// Whether another parameter of the compressor makes `ratio` one that is not used.
bool ratio_is_unused(const protocol::JobSpec& spec, const json& catalog) {
  const json entry = compressor_entry(spec, catalog);
  const json& properties = entry.at("params").at("properties");
  const json conditions = properties.at("ratio").value("onlyWhere", json::object());
  for (const auto& [name, condition] : conditions.items()) {
    json value = spec.compression.compressor.params.value(name, properties.at(name).at("default"));
    if (!protocol::check_and_complete(condition, value).empty()) return true;
  }
  return false;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

}  // namespace

json round_cost(const protocol::JobSpec& spec, const protocol::TrainingShape* shape, const json& catalog) {
  json round = {{"parameters", nullptr}, {"bytes_dense", nullptr}, {"bytes_sent", nullptr}};
  if (shape == nullptr || shape->parameters.empty()) return round;
  const json entry = compressor_entry(spec, catalog);
  const json vectors_from = entry.value("traits", json::object()).value("vector_entries_min", json());
  std::uint64_t parameters = 0;
  std::uint64_t compressed = 0;
  for (const auto& parameter : shape->parameters) {
    std::uint64_t entries = 1;
    for (const auto extent : parameter.extents) entries *= static_cast<std::uint64_t>(extent);
    parameters += entries;
    const bool taken = vectors_from.is_number_unsigned() && entries >= vectors_from.get<std::uint64_t>();
    if (taken || parameter.extents.size() > 1) compressed += entries;
  }
  const double world = spec.resources.workers;
  const double parts = parts_of_model(spec, *shape);
  const auto whole = [parts](double bytes) { return static_cast<std::uint64_t>(std::llround(bytes / parts)); };
  round["parameters"] = parameters;
  round["bytes_dense"] = whole(dense_bytes(static_cast<double>(parameters), world));
  const json topology = topology_entry(spec, catalog);
  if (topology.value("automatic", false) || !exchanges_with_all(spec, catalog)) return round;
  const std::string gathers = topology.value("gathers", "all");
  if (const auto bits = wire_bits(spec, entry, gathers != "all")) {
    const double sent =
        static_cast<double>(compressed) * *bits / 8 + dense_bytes(static_cast<double>(parameters - compressed), world);
    round["bytes_sent"] = whole(sent);
  }
  return round;
}

std::uint64_t period_of(const protocol::JobSpec& spec) {
  return spec.training.mode.params.value("period", std::uint64_t{1});
}

std::optional<Exchanges> exchanges_of(const protocol::JobSpec& spec, std::uint64_t steps_per_epoch,
                                      const json& catalog) {
  const auto& params = spec.training.mode.params;
  if (exchanged_by_mode(spec, catalog) == "differences" && !params.contains("period")) return std::nullopt;
  return Exchanges{.in_each = protocol::steps_in(params.value("post_local_epoch", 0.0), steps_per_epoch),
                   .period = period_of(spec)};
}

std::optional<StepCount> count_steps(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                     const json& catalog) {
  if (!shape.train_examples) return std::nullopt;
  const std::uint64_t of_a_gradient = *shape.train_examples / gradients_per_step(spec);
  const std::uint64_t per_epoch = of_a_gradient / spec.training.samples_per_step();
  const std::uint64_t total = spec.training.steps_total(per_epoch);
  const auto warmup = std::ceil(warmup_steps(spec, catalog, per_epoch, total));
  return StepCount{.total = total,
                   .per_epoch = per_epoch,
                   .warmup = warmup < static_cast<double>(total) ? static_cast<std::uint64_t>(warmup) : total};
}

std::vector<Warning> warnings_of(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                 const json& catalog) {
  std::vector<Warning> warnings;
  const auto& params = spec.compression.compressor.params;
  const auto ratio = params.find("ratio");
  const auto steps = count_steps(spec, shape, catalog);
  if (!steps || ratio == params.end() || !ratio->is_number()) return warnings;
  if (ratio_is_unused(spec, catalog)) return warnings;
  // Where workers make steps of their own, an entry is sent in one of so many.
  const auto period = static_cast<double>(period_of(spec));
  const auto compressed = static_cast<double>(steps->total - steps->warmup) / period;
  const double sends = ratio->get<double>() * compressed;
  if (sends >= sends_per_entry_min) return warnings;
  const std::string which = std::to_string(static_cast<std::uint64_t>(compressed)) +
                            (period > 1 ? " exchanges" : " steps") +
                            (steps->warmup > 0 ? " after the warm-up" : " of the training");
  std::string detail = "at a ratio of " + number_text(ratio->get<double>()) + " each entry of the gradient is sent " +
                       number_text(sends) + " times on average in the " + which +
                       "; below about 5 much of what is learned is never sent: train longer, with smaller batches";
  detail += compressed > sends_per_entry_min
                ? ", or ask for a ratio of " + number_text(sends_per_entry_min / compressed) + " or more"
                : ", or without a compressor that leaves entries out";
  warnings.push_back({"/compression/params/ratio", std::move(detail)});
  return warnings;
}

std::vector<protocol::Problem> problems_of(const protocol::JobSpec& spec, const protocol::TrainingShape& shape) {
  std::vector<protocol::Problem> problems;
  if (spec.dataset.partition == "by_class" && shape.classes && *shape.classes < spec.resources.workers) {
    problems.push_back({"/dataset/partition", "\"by_class\" gives each worker classes of its own, and there are " +
                                                  std::to_string(*shape.classes) + " classes for " +
                                                  std::to_string(spec.resources.workers) +
                                                  " workers; take fewer workers, or \"dirichlet\""});
  }
  const auto& training = spec.training;
  if (!shape.parameters.empty()) {
    std::vector<std::string> names;
    for (const auto& parameter : shape.parameters) names.push_back(parameter.name);
    std::ranges::move(protocol::check_groups(training.optimizer.params, names), std::back_inserter(problems));
  }
  if (!shape.train_examples) return problems;
  const std::uint64_t share = *shape.train_examples / spec.resources.workers;
  if (share >= training.samples_per_step()) return problems;
  std::string message = "a worker's share of the dataset, " + std::to_string(share) + " of " +
                        std::to_string(*shape.train_examples) + " examples, is smaller than ";
  if (share < training.batch_size) {
    message += "a batch of " + std::to_string(training.batch_size);
    problems.push_back({"/training/batch_size", std::move(message)});
  } else {
    message +=
        "a step of " + std::to_string(training.accumulate) + " batches of " + std::to_string(training.batch_size);
    problems.push_back({"/training/params/accumulate", std::move(message)});
  }
  return problems;
}

}  // namespace weir::cluster
