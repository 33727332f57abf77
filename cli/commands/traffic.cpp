#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/download.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "protocol/roles.hpp"

namespace weir::cli {
namespace {

struct Traffic {
  std::string id;
};

struct Trace {
  std::string id;
  std::string step = "sampled";
  std::string file;  ///< "" or "-": standard output
  bool force = false;
};

std::string job_path(const std::string& id) { return "/api/v1/jobs/" + percent_encoded(id); }

std::string bytes_cell(const nlohmann::json& object, const char* name) {
  const nlohmann::json& bytes = member(object, name);
  return bytes.is_number() ? bytes_text(bytes.get<double>()) : "-";
}

void add_row(Table& table, std::string kind, std::string name, const nlohmann::json& counts) {
  table.add({std::move(kind), std::move(name), bytes_cell(counts, "bytes_sent"), bytes_cell(counts, "bytes_received")});
}

/// A worker, as most are, by its number; another process by its name.
std::string rank_cell(const Result<protocol::RoleGroups>& groups, const nlohmann::json& rank) {
  if (groups && rank.is_number_unsigned() && rank.get<std::uint64_t>() < protocol::members_of(*groups)) {
    const auto [role, number] = protocol::role_of_rank(*groups, rank.get<std::uint32_t>());
    if (role != protocol::Role::worker) return protocol::process_name(role, number);
  }
  return value_text(rank);
}

std::string seconds_cell(const nlohmann::json& object, const char* name) {
  const nlohmann::json& seconds = member(object, name);
  return seconds.is_number() ? seconds_text(seconds.get<double>()) : "-";
}

/// How the gradients travel: what is followed, and what else was tried.
void print_plan(const nlohmann::json& plan) {
  const std::string rate = bytes_cell(plan, "bytes_per_second");
  Table about({"PLAN", "LATENCY", "RATE", "WHY"});
  about.add({"from step " + value_text(member(plan, "step")), seconds_cell(plan, "latency_seconds"),
             rate == "-" ? rate : rate + "/s", text(plan, "reason")});
  Table routes({"FORM", "TOPOLOGY", "BUCKETS", "BYTES"});
  for (const nlohmann::json& route : member(plan, "routes")) {
    routes.add({text(route, "form"), text(route, "topology"), value_text(member(route, "buckets")),
                bytes_cell(route, "bytes")});
  }
  print("\n" + about.str() + "\n" + routes.str());
  if (member(plan, "candidates").empty()) return;
  Table candidates({"PREDICTED", "MEASURED", "FOLLOWED", "CANDIDATE"});
  for (const nlohmann::json& one : member(plan, "candidates")) {
    candidates.add({seconds_cell(one, "predicted_seconds"), seconds_cell(one, "measured_seconds"),
                    member(one, "followed") == true ? "yes" : "", text(one, "routes")});
  }
  print("\n" + candidates.str());
}

int traffic(const Settings& settings, const Traffic& options) {
  const Api api(settings);
  auto answer = api.get(job_path(options.id) + "/traffic");
  if (!answer) return complain(answer.error());
  if (settings.json) {
    print(*answer);
    return ExitCode::ok;
  }
  auto job = api.get(job_path(options.id));
  if (!job) return complain(job.error());
  const auto groups = protocol::read_groups(member(*job, "spec"));
  Table table({"OF", "NAME", "SENT", "RECEIVED"});
  for (const nlohmann::json& link : member(*answer, "links")) {
    add_row(table, "link", rank_cell(groups, member(link, "from")) + " to " + rank_cell(groups, member(link, "to")),
            link);
  }
  for (const nlohmann::json& phase : member(*answer, "phases")) add_row(table, "phase", text(phase, "name"), phase);
  for (const nlohmann::json& tensor : member(*answer, "tensors"))
    add_row(table, "tensor", text(tensor, "name"), tensor);
  if (!member(*answer, "tensors").empty()) add_row(table, "tensor", "(the rest)", member(*answer, "rest"));
  add_row(table, "all", "", *answer);
  print(table.str());
  if (const nlohmann::json& plan = member(*answer, "plan"); plan.is_object()) print_plan(plan);
  if (number(*job, "restarts") > 0) say("The job was restarted: this is what was sent since the last restart.");
  return ExitCode::ok;
}

Result<std::uint64_t> save(const Api& api, const std::string& target, const Trace& options) {
  if (auto free = check_free(options.file, options.force); !free) return free.error();
  NewFile file(options.file);
  if (auto opened = file.open(); !opened) return opened.error();
  auto received = api.client().download(target, [&](std::string_view part) { return file.append(part); });
  if (!received) return received.error();
  if (auto kept = file.keep(options.force); !kept) return kept.error();
  return file.size();
}

int trace(const Settings& settings, const Trace& options) {
  const Api api(settings);
  const std::string target = job_path(options.id) + "/trace?step=" + options.step;
  if (options.file.empty() || options.file == "-") return pass_body_on(api, target);
  auto bytes = save(api, target, options);
  if (!bytes) return complain(bytes.error());
  if (settings.json) {
    print(nlohmann::json{{"job", options.id}, {"file", options.file}, {"bytes", *bytes}});
  } else {
    say(bytes_text(static_cast<double>(*bytes)) + ": " + options.file + ", for chrome://tracing or Perfetto");
  }
  return ExitCode::ok;
}

}  // namespace

void add_job_traffic(CLI::App& job, Choice& choice) {
  auto counted = std::make_shared<Traffic>();
  add_command(job, choice, "traffic",
              "What a job's processes have sent each other since its last restart, by link, phase and tensor, and how",
              counted, traffic)
      ->add_option("id", counted->id, "The job's id")
      ->check(not_empty)
      ->required();

  auto traced = std::make_shared<Trace>();
  CLI::App* command = add_command(job, choice, "trace", "The exchange of one step, a Chrome trace", traced, trace);
  command->add_option("id", traced->id, "The job's id")->check(not_empty)->required();
  command->add_option("--step", traced->step, "Which step: a recent one, or the slowest")
      ->check(CLI::IsMember({"sampled", "slowest"}))
      ->capture_default_str();
  command->add_option("--output,-o", traced->file, "The file to write; without it, or with -, standard output");
  command->add_flag("--force", traced->force, "Replace the file if there is one");
}

}  // namespace weir::cli
