#include "protocol/job_spec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "protocol/aggregation.hpp"
#include "protocol/catalog_entries.hpp"
#include "protocol/conditions.hpp"
#include "protocol/differences.hpp"
#include "protocol/epochs.hpp"
#include "protocol/job_spec_schema.hpp"
#include "protocol/mode_fit.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;
using nlohmann::literals::operator""_json_pointer;

/// The second half of the check, against the catalog. Runs on a spec that follows the schema.
class CatalogCheck {
 public:
  CatalogCheck(json& spec, const json& catalog) : spec_(spec), catalog_(catalog) {}

  std::vector<Problem> run() {
    choice("models", "model", spec_["model"], "/model");
    dataset();
    mode_and_topology();
    topology_and_workers();
    topology_and_gpus();
    servers_and_workers();
    beside_name("optimizers", "optimizer", spec_["training"]["optimizer"], "/training/optimizer");
    beside_name("lr_schedules", "learning rate schedule", spec_["training"]["lr_schedule"], "/training/lr_schedule");
    compression();
    append(check_differences(spec_, catalog_));
    append(check_neighbours(spec_, catalog_));
    append(check_pushes(spec_, catalog_));
    append(check_aggregation(spec_, catalog_));
    append(check_settings_without_effect(spec_, catalog_));
    append(complete_clip(spec_, catalog_));
    append(check_adaptation(spec_, catalog_));
    append(check_learning_rate(spec_, catalog_));
    append(check_momentum(spec_, catalog_));
    append(check_conditions(spec_));
    topology_and_compressor();
    optimizer_and_momentum();
    nesterov_and_momentum();
    workers();
    groups();
    if (spec_["name"].is_null()) {
      spec_["name"] = spec_["model"]["name"].get<std::string>() + "-" + spec_["compression"]["name"].get<std::string>();
    }
    return std::move(problems_);
  }

 private:
  void append(std::vector<Problem> found) {
    problems_.insert(problems_.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }

  /// Finds the named entry, or adds a problem that lists the entries there are.
  const json* named(const char* list, const std::string& noun, const std::string& name, const std::string& at) {
    if (const json* entry = find_entry(catalog_, list, name)) return entry;
    std::vector<std::string> names;
    std::string known;
    for (const auto& entry : catalog_.value(list, json::array())) {
      names.push_back(entry.value("name", ""));
      known += (known.empty() ? "" : ", ") + names.back();
    }
    const auto nearest = nearest_name(name, names);
    std::string message = "there is no " + noun + " \"" + name + "\"";
    message += nearest.empty() ? "; the catalog has: " + known : "; did you mean \"" + nearest + "\"?";
    problems_.push_back({at, std::move(message), nearest});
    return nullptr;
  }

  void params(const json& entry, json& value, const std::string& at) {
    static const json nothing = {{"type", "object"}, {"additionalProperties", false}};
    const auto schema = entry.find("params");
    const auto found = check_and_complete(schema == entry.end() ? nothing : *schema, value, at);
    problems_.insert(problems_.end(), found.begin(), found.end());
  }

  /// Checks a choice of the form {"name", "params"}.
  const json* choice(const char* list, const std::string& noun, json& value, const std::string& at) {
    const json* entry = named(list, noun, value["name"], at + "/name");
    if (entry != nullptr) params(*entry, value["params"], at + "/params");
    return entry;
  }

  /// Checks a choice that has its parameters beside "name".
  void beside_name(const char* list, const std::string& noun, json& value, const std::string& at) {
    const json name = value["name"];
    const json* entry = named(list, noun, name, at + "/name");
    if (entry == nullptr) return;
    value.erase("name");
    params(*entry, value, at);
    value["name"] = name;
  }

  void dataset() {
    const json* entry = choice("datasets", "dataset", spec_["dataset"], "/dataset");
    if (entry == nullptr) return;
    const bool given = !spec_["dataset"]["path"].is_null();
    const std::string name = "dataset \"" + entry->value("name", "") + "\"";
    if (!given && entry->value("needs_path", false)) {
      problems_.push_back({"/dataset/path", name + " has no usual place: say where it is on the workers' hosts"});
    }
    if (given && !entry->value("has_files", true)) {
      problems_.push_back({"/dataset/path", name + " has no files: leave the path out"});
    }
  }

  static bool works_over(const json& mode, const json& topology) {
    const auto fitting = mode.find("topologies");
    return fitting == mode.end() || std::find(fitting->begin(), fitting->end(), topology) != fitting->end();
  }

  void mode_and_topology() {
    json& training = spec_["training"];
    const std::string topology = spec_["exchange"]["topology"];
    const json* mode = named("modes", "training mode", training["mode"], "/training/mode");
    if (mode != nullptr) mode_params(*mode);
    const json* entry = named("topologies", "topology", topology, "/exchange/topology");
    if (entry == nullptr) return;
    params(*entry, spec_["exchange"]["params"], "/exchange/params");
    if (mode == nullptr || works_over(*mode, topology)) return;
    problems_.push_back({"/exchange/topology", "training mode \"" + training["mode"].get<std::string>() +
                                                   "\" does not work over \"" + topology + "\"; it takes " +
                                                   mode->at("topologies").dump()});
  }

  void mode_params(const json& mode) {
    const auto before = problems_.size();
    params(mode, spec_["training"]["params"], "/training/params");
    if (problems_.size() > before) return;
    for (auto& problem : check_mode_params(spec_)) problems_.push_back(std::move(problem));
  }

  void topology_and_workers() {
    const std::string name = spec_["exchange"]["topology"];
    const json* topology = find_entry(catalog_, "topologies", name);
    if (topology == nullptr || topology->value("workers", "any") == "any") return;
    const auto workers = spec_["resources"]["workers"].get<std::uint32_t>();
    if (std::has_single_bit(workers)) return;
    const json* mode = find_entry(catalog_, "modes", spec_["training"]["mode"].get<std::string>());
    std::string others;
    for (const auto& other : catalog_.at("topologies")) {
      if (other.value("workers", "any") != "any" || (mode != nullptr && !works_over(*mode, other.at("name")))) continue;
      others += (others.empty() ? "" : ", ") + other.value("name", "");
    }
    problems_.push_back({"/exchange/topology", "\"" + name + "\" works for 1, 2, 4, 8, ... workers, and the job has " +
                                                   std::to_string(workers) + "; for any number: " + others});
  }

  /// Of a GPU that is shared, two workers of a job may have a part, and NCCL takes one worker on each.
  void topology_and_gpus() {
    const std::string name = spec_["exchange"]["topology"];
    const json* topology = find_entry(catalog_, "topologies", name);
    if (topology == nullptr || !topology->value("on_devices", false)) return;
    if (limits_links(spec_)) {
      problems_.push_back(
          {"/training/params/link_rate", "limits the workers' sockets, and \"" + name + "\" sends past them"});
    }
    if (spec_["exchange"]["transport"] != "auto") {
      problems_.push_back({"/exchange/transport", "\"" + name + "\" chooses its own; it takes \"auto\""});
    }
    const double gpus = spec_["resources"]["per_worker"].value("gpu", 0.0);
    if (gpus >= 1) return;
    problems_.push_back({"/exchange/topology",
                         "\"" + name + "\" works between GPUs, one for each worker, and a worker of the job has " +
                             (gpus > 0 ? "a part of one" : "none") + ": set resources.per_worker.gpu to 1"});
  }

  void servers_and_workers() {
    const json& given = spec_["exchange"]["params"];
    const auto servers = given.find("servers");
    const auto workers = spec_["resources"]["workers"].get<std::uint32_t>();
    if (servers == given.end() || !servers->is_number_integer() || servers->get<std::uint64_t>() <= workers) return;
    problems_.push_back({"/exchange/params/servers", "there are " + servers->dump() + " servers among " +
                                                         std::to_string(workers) + " workers; at most one on each"});
  }

  /// Not every compressor's payloads are of use to owners, of shares or regions, or to partners.
  void topology_and_compressor() {
    const std::string name = spec_["exchange"]["topology"];
    const json* topology = find_entry(catalog_, "topologies", name);
    const json* compressor = find_entry(catalog_, "compressors", spec_["compression"]["name"].get<std::string>());
    if (topology == nullptr || compressor == nullptr) return;
    const std::string gathers = topology->value("gathers", "all");
    const json fitting = fits_of(*compressor, spec_["compression"]["params"]);
    const std::string reason = fitting.value(gathers + "_misfit", "");
    if (reason.empty()) return;
    problems_.push_back({"/exchange/topology", "\"" + name + "\" does not fit compressor \"" +
                                                   compressor->value("name", "") + "\": " + reason});
  }

  void compression() {
    json& part = spec_["compression"];
    const json* compressor = choice("compressors", "compressor", part, "/compression");
    if (part["memory"].is_null()) {
      if (compressor == nullptr) return;
      const std::string values = exchanged(spec_, catalog_);
      part["memory"] = values == "models" ? "none" : default_memory(*compressor, values == "differences");
    }
    const std::string memory = part["memory"];
    const json* entry = named("memories", "memory", memory, "/compression/memory");
    if (entry == nullptr) return;
    if (compressor != nullptr && memory == compressor->value("default_memory", "") &&
        part["memory_params"].is_object()) {
      json given = compressor->value("default_memory_params", json::object());
      given.update(part["memory_params"]);
      part["memory_params"] = given;
    }
    params(*entry, part["memory_params"], "/compression/memory_params");
    if (compressor == nullptr) return;
    const json misfits = fits_of(*compressor, part["params"]).at("memory_misfits");
    if (!misfits.contains(memory)) return;
    json fitting = json::array();
    for (const auto& other : catalog_.at("memories")) {
      if (!misfits.contains(other.at("name"))) fitting.push_back(other.at("name"));
    }
    problems_.push_back({"/compression/memory",
                         "memory \"" + memory + "\" does not fit compressor \"" + part["name"].get<std::string>() +
                             "\": " + misfits.at(memory).get<std::string>() + "; it takes " + fitting.dump()});
  }

  /// A memory or a compressor that owns the momentum leaves the optimizer without one, and not every optimizer can work
  /// so.
  void optimizer_and_momentum() {
    const std::string name = spec_["training"]["optimizer"]["name"];
    const json* optimizer = find_entry(catalog_, "optimizers", name);
    const json& part = spec_["compression"];
    if (optimizer == nullptr || part["memory"].is_null() || optimizer->value("yields_momentum", true)) return;
    const json* memory = find_entry(catalog_, "memories", part["memory"].get<std::string>());
    std::string owner = owner_of_momentum(spec_, catalog_);
    if (owner.empty() && memory != nullptr && memory->value("owns_momentum", false)) {
      owner = "memory \"" + memory->value("name", "") + "\" applies the optimizer's momentum before compression";
    }
    if (owner.empty()) return;
    problems_.push_back({"/training/optimizer/name", "optimizer \"" + name + "\" keeps moments of its own, and " +
                                                         owner + "; use \"sgd\", or a compression without momentum"});
  }

  void nesterov_and_momentum() {
    const json& optimizer = spec_["training"]["optimizer"];
    if (optimizer.value("nesterov", json()) != true || optimizer.value("momentum", json()) != 0) return;
    problems_.push_back(
        {"/training/optimizer/nesterov", "Nesterov's momentum needs /training/optimizer/momentum above 0"});
  }

  void workers() {
    json& part = spec_["resources"];
    const std::string alone =
        "training mode \"" + spec_["training"]["mode"].get<std::string>() + "\" exchanges nothing";
    if (exchanged(spec_, catalog_) == "nothing") {
      if (part["workers"] != 1) {
        problems_.push_back(
            {"/resources/workers", alone + ": it trains on one worker, and the job has " + part["workers"].dump()});
      }
      if (spec_["compression"]["name"] != "none") {
        problems_.push_back({"/compression/name", alone + ", so that there is nothing to compress; it takes \"none\""});
      }
    }
    if (part["min_workers"].is_null()) part["min_workers"] = part["workers"];
    if (part["min_workers"] != part["workers"]) {
      problems_.push_back({"/resources/min_workers",
                           "the training modes there are need all their workers: must be null or /resources/workers, "
                           "which is " +
                               part["workers"].dump()});
    }
    for (const char* each : {"per_worker", "per_server"}) {
      if (!part[each].contains("cpu")) part[each]["cpu"] = 1;
    }
    const double gpus = part["per_worker"].value("gpu", 0.0);
    if (gpus <= 1 || gpus == std::floor(gpus)) return;
    problems_.push_back(
        {"/resources/per_worker/gpu",
         "a process gets a part of one GPU or whole ones: must be at most 1 or a whole number, and is " +
             part["per_worker"]["gpu"].dump()});
  }

  /// The processes that follow from the mode and the rest of the spec. Without a mode that problem stands alone, and so
  /// does a parameter that says how many and is wrong by itself.
  void groups() {
    const json* mode = find_entry(catalog_, "modes", spec_["training"]["mode"].get<std::string>());
    if (mode == nullptr) return;
    append(check_role_resources(spec_, *mode));
    if (!problems_.empty()) return;
    const auto groups = groups_of(spec_, *mode);
    if (!groups) return problems_.push_back({"/training/mode", groups.error().context});
    spec_["resources"]["groups"] = to_json(*groups);
  }

  json& spec_;
  const json& catalog_;
  std::vector<Problem> problems_;
};

/// Reads a choice that has its parameters beside "name".
Choice beside_name(const json& value) {
  Choice result{value.at("name"), value};
  result.params.erase("name");
  return result;
}

template <class T>
std::optional<T> nullable(const json& value) {
  return value.is_null() ? std::nullopt : std::optional<T>(value.get<T>());
}

JobSpec::Clip read_clip(const json& clip) {
  return {nullable<double>(clip.value("norm", json())), nullable<double>(clip.value("value", json())),
          clip.value("where", "global") == "local"};
}

JobSpec read(const json& spec) {
  JobSpec result;
  result.name = spec.at("name");
  result.model = {spec.at("model").at("name"), spec.at("model").at("params")};
  const json& dataset = spec.at("dataset");
  result.dataset = {{dataset.at("name"), dataset.at("params")},
                    nullable<std::string>(dataset.at("path")),
                    dataset.at("partition"),
                    dataset.value("dirichlet_alpha", 0.5)};
  const json& training = spec.at("training");
  result.training = {{training.at("mode"), training.at("params")},
                     training.at("epochs"),
                     nullable<std::uint64_t>(training.at("max_steps")),
                     training.at("batch_size"),
                     training.at("params").value("accumulate", std::uint64_t{1}),
                     beside_name(training.at("optimizer")),
                     beside_name(training.at("lr_schedule")),
                     training.at("seed"),
                     read_clip(training.value("clip", json::object())),
                     read_conditions(training.at("params")),
                     training.value("precision", "float32") == "bfloat16" ? Precision::bfloat16 : Precision::float32};
  const json& compression = spec.at("compression");
  result.compression = {{compression.at("name"), compression.at("params")},
                        {compression.at("memory"), compression.at("memory_params")},
                        compression.at("apply_to"),
                        compression.value("aggregation", "mean")};
  const json& exchange = spec.at("exchange");
  const json servers = exchange.value("params", json::object()).value("servers", json());
  result.exchange = {.topology = exchange.at("topology"),
                     .transport = exchange.at("transport"),
                     .bucket_bytes = exchange.at("bucket_bytes"),
                     .servers = nullable<std::uint32_t>(servers).value_or(0)};
  const json& resources = spec.at("resources");
  result.resources = {.workers = resources.at("workers"),
                      .per_worker = resources.at("per_worker"),
                      .labels = resources.at("labels"),
                      .placement = resources.at("placement") == "spread" ? Placement::spread : Placement::pack,
                      .priority = resources.at("priority"),
                      .groups = read_groups(spec).value()};
  result.evaluate_every_steps = spec.at("evaluation").at("every_steps");
  const json& checkpoint = spec.at("checkpoint");
  result.checkpoint_every_steps = checkpoint.at("every_steps");
  result.checkpoints_kept = checkpoint.at("keep");
  if (const json& from = checkpoint.at("resume_from"); !from.is_null()) {
    result.resume_from = JobSpec::ResumeFrom{from.at("job"), nullable<std::uint64_t>(from.at("step"))};
  }
  result.restarts_max = spec.at("fault_tolerance").at("max_restarts");
  return result;
}

/// The spec without the values that the problems point at, so that defaults take their place.
json without(json spec, const std::vector<Problem>& problems) {
  for (const auto& problem : problems) {
    const json::json_pointer at(problem.pointer);
    if (at.empty() || !spec.contains(at)) continue;
    auto& parent = spec.at(at.parent_pointer());
    if (parent.is_object()) parent.erase(at.back());
  }
  return spec;
}

}  // namespace

std::uint64_t JobSpec::Training::steps_total(std::uint64_t steps_per_epoch) const {
  const std::uint64_t steps = steps_in(epochs, steps_per_epoch);
  return std::min(steps, max_steps.value_or(steps));
}

const json& job_spec_schema() {
  static const json schema = json::parse(job_spec_schema_text);
  return schema;
}

std::vector<Problem> normalize_job_spec(json& spec, const json& catalog) {
  json given = spec;
  auto problems = check_and_complete(job_spec_schema(), spec);
  if (problems.empty()) return first_of(CatalogCheck(spec, catalog).run());
  // Problems that the schema finds do not hide those that the catalog check finds in the rest.
  json rest = without(std::move(given), problems);
  if (check_and_complete(job_spec_schema(), rest).empty()) {
    for (auto& problem : CatalogCheck(rest, catalog).run()) problems.push_back(std::move(problem));
  }
  return first_of(std::move(problems));
}

Result<JobSpec> parse_job_spec(const json& spec) {
  if (auto groups = read_groups(spec); !groups) return groups.error();
  try {
    return read(spec);
  } catch (const json::exception& e) {
    return Error{Errc::malformed, std::string("a job spec that is not normalized: ") + e.what()};
  }
}

}  // namespace weir::protocol
