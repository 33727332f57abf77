#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/download.hpp"
#include "cli/exit_code.hpp"
#include "cli/follow.hpp"
#include "cli/format.hpp"
#include "cli/metric_summary.hpp"

namespace weir::cli {
namespace {

struct List {
  std::string state;
  std::string search;
  std::size_t limit = 50;
};

struct One {
  std::string id;
};

struct Logs {
  std::string id;
  int worker = -1;
  bool follow = false;
};

struct Metrics {
  std::string id;
  std::string name;
  std::string x = "step";
  std::string points;  ///< a number or "all"; "": 500 as JSON, else all
  bool csv = false;
};

std::string job_path(const std::string& id) { return "/api/v1/jobs/" + percent_encoded(id); }

std::string percent_or_dash(const nlohmann::json& share) {
  if (!share.is_number()) return "-";
  const auto tenths = std::lround(share.get<double>() * 1000);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
}

std::string bytes_or_dash(const nlohmann::json& bytes) {
  return bytes.is_number() ? bytes_text(bytes.get<double>()) : "-";
}

std::string steps(const nlohmann::json& job) {
  const nlohmann::json& total = member(job, "steps_total");
  const std::string step = value_text(member(job, "step"));
  return total.is_number() && total != 0 ? step + "/" + value_text(total) : step;
}

int list(const Settings& settings, const List& options) {
  std::string query;
  if (!options.state.empty()) query += "state=" + percent_encoded(options.state) + "&";
  if (!options.search.empty()) query += "q=" + percent_encoded(options.search) + "&";
  auto jobs = Api(settings).list("/api/v1/jobs", "jobs", query, options.limit);
  if (!jobs) return complain(jobs.error());
  if (settings.json) {
    print(nlohmann::json{{"jobs", jobs->items}, {"next", jobs->next}});
    return ExitCode::ok;
  }
  Table table({"ID", "NAME", "STATE", "PHASE", "STEP", "ACCURACY", "SENT", "CREATED"});
  for (const nlohmann::json& job : jobs->items) {
    const nlohmann::json& summary = member(job, "summary");
    table.add({text(job, "id"), text(job, "name"), text(job, "state"), text(job, "phase"), steps(job),
               percent_or_dash(member(summary, "accuracy")), bytes_or_dash(member(summary, "bytes_sent")),
               text(job, "created_at")});
  }
  print(table.str());
  if (jobs->next.is_string()) say("There are more: --limit " + std::to_string(2 * options.limit));
  return ExitCode::ok;
}

int show(const Settings& settings, const One& options) {
  auto job = Api(settings).get(job_path(options.id));
  if (!job) return complain(job.error());
  if (settings.json) {
    print(*job);
    return ExitCode::ok;
  }
  std::string state = text(*job, "state");
  if (auto phase = text(*job, "phase"); !phase.empty()) state += " (" + phase + ")";
  Table table({"id", text(*job, "id")});
  table.add({"name", text(*job, "name")});
  table.add({"state", state});
  if (auto reason = text(*job, "reason"); !reason.empty()) table.add({"reason", reason});
  table.add({"step", steps(*job)});
  if (number(*job, "restarts") > 0) table.add({"restarts", value_text(member(*job, "restarts"))});
  for (const char* time : {"created_at", "started_at", "ended_at"}) table.add({time, value_text(member(*job, time))});
  for (const auto& [name, value] : member(*job, "summary").items()) {
    if (value.is_structured()) continue;
    table.add({name, name.starts_with("bytes_") && value.is_number() ? bytes_or_dash(value) : value_text(value)});
  }
  print(table.str());
  const nlohmann::json& workers = member(*job, "workers");
  if (!workers.is_array() || workers.empty()) return ExitCode::ok;
  Table ranks({"RANK", "ROLE", "NODE", "PID", "STATE", "STEP", "SAMPLES/S", "SENT", "DENSE"});
  for (const nlohmann::json& worker : workers) {
    ranks.add({value_text(member(worker, "rank")), text(worker, "role"), value_text(member(worker, "node")),
               value_text(member(worker, "pid")), text(worker, "state"), value_text(member(worker, "step")),
               value_text(member(worker, "samples_per_second")), bytes_or_dash(member(worker, "bytes_sent")),
               bytes_or_dash(member(worker, "bytes_dense"))});
  }
  print("\n" + ranks.str());
  return ExitCode::ok;
}

int logs(const Settings& settings, const Logs& options) {
  const Api api(settings);
  return options.follow ? follow_logs(api, options.id, options.worker, settings.json)
                        : show_logs(api, options.id, options.worker, settings.json);
}

int events(const Settings& settings, const One& options) {
  auto events = Api(settings).list(job_path(options.id) + "/events", "events");
  if (!events) return complain(events.error());
  if (settings.json) {
    print(nlohmann::json{{"events", events->items}, {"next", nullptr}});
    return ExitCode::ok;
  }
  Table table({"TIME", "SEVERITY", "KIND", "NODE", "WORKER", "MESSAGE"});
  for (const nlohmann::json& event : events->items) {
    table.add({text(event, "at"), text(event, "severity"), text(event, "kind"), value_text(member(event, "node")),
               value_text(member(event, "worker")), text(event, "message")});
  }
  print(table.str());
  return ExitCode::ok;
}

/// Whole numbers, such as bytes, with all their digits.
std::string number_cell(double value) {
  constexpr double exact_max = 9007199254740992;  // 2^53
  if (value == std::trunc(value) && std::abs(value) <= exact_max) return std::to_string(std::llround(value));
  return value_text(value);
}

/// A table of all points: those of a bucket would hide the first ones, and how many there are.
int metrics_table(const Api& api, const std::string& target) {
  MetricSummary summary;
  auto read = api.client().download(target, [&](std::string_view part) { return summary.add(part); });
  if (!read) return complain(read.error());
  Table table({"NAME", "WORKER", "POINTS", "FIRST", "LEAST", "GREATEST", "LAST"});
  for (const auto& series : summary.series()) {
    table.add({series.name, series.worker.empty() ? "all" : series.worker, std::to_string(series.points),
               number_cell(series.first), number_cell(series.least), number_cell(series.greatest),
               number_cell(series.last)});
  }
  print(table.str());
  return ExitCode::ok;
}

int metrics(const Settings& settings, const Metrics& options) {
  if (options.csv && settings.json) {
    return complain({Errc::invalid_argument, "--csv and --json ask for two forms of the same points: give one"});
  }
  const bool table = !options.csv && !settings.json;
  if (table && !options.points.empty()) {
    return complain({Errc::invalid_argument, "--points is for --csv and --json; a table sums up all points"});
  }
  const std::string points = !options.points.empty() ? options.points : settings.json ? "500" : "all";
  std::string target = job_path(options.id) + "/metrics?x=" + percent_encoded(options.x) + "&points=" + points;
  if (!options.name.empty()) target += "&name=" + percent_encoded(options.name);
  const Api api(settings);
  if (table) return metrics_table(api, target + "&format=csv");
  if (options.csv) return pass_body_on(api, target + "&format=csv");
  if (points == "all") return pass_body_on(api, target);
  auto answer = api.get(target);
  if (!answer) return complain(answer.error());
  print(*answer);
  return ExitCode::ok;
}

int stop(const Settings& settings, const One& options) {
  auto job = Api(settings).post(job_path(options.id) + "/stop");
  if (!job) return complain(job.error());
  if (settings.json) {
    print(*job);
  } else if (text(*job, "phase") == "stopping") {
    const bool trains = number(*job, "step") > 0;
    say(trains ? "stopping; a checkpoint is taken first" : "stopping; if it trains, a checkpoint is taken first");
  } else {
    say(text(*job, "state") + (text(*job, "phase").empty() ? "" : " (" + text(*job, "phase") + ")"));
  }
  return ExitCode::ok;
}

int remove(const Settings& settings, const One& options) {
  auto done = Api(settings).remove(job_path(options.id));
  if (!done) return complain(done.error());
  if (settings.json) print(nlohmann::json{{"deleted", options.id}});
  say("deleted " + options.id);
  return ExitCode::ok;
}

void add_one(CLI::App& parent, Choice& choice, const char* name, const char* description,
             int (*run)(const Settings&, const One&)) {
  auto options = std::make_shared<One>();
  add_command(parent, choice, name, description, options, run)
      ->add_option("id", options->id, "The job's id")
      ->check(not_empty)
      ->required();
}

}  // namespace

void add_job(CLI::App& program, Choice& choice) {
  CLI::App& job = *program.add_subcommand("job", "Look at jobs, stop and delete them");
  job.require_subcommand(1);

  auto listed = std::make_shared<List>();
  CLI::App* command = add_command(job, choice, "list", "Jobs, newest first", listed, list);
  command->add_option("--state", listed->state, "Only those in this state")
      ->check(CLI::IsMember({"PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"}));
  command->add_option("--search", listed->search, "Only those whose id or name contains this");
  command->add_option("--limit", listed->limit, "How many")->check(CLI::Range(1, 1'000'000))->capture_default_str();

  add_one(job, choice, "show", "One job with its workers", show);

  auto logged = std::make_shared<Logs>();
  command = add_command(job, choice, "logs", "What a job's workers have printed", logged, logs);
  command->add_option("id", logged->id, "The job's id")->check(not_empty)->required();
  command->add_option("--worker", logged->worker, "Only this rank")->check(CLI::Range(0, 65'535));
  command->add_flag("--follow,-f", logged->follow, "Go on until the job has ended");

  add_one(job, choice, "events", "What has happened to a job", events);

  auto measured = std::make_shared<Metrics>();
  command = add_command(job, choice, "metrics", "A job's time series", measured, metrics);
  command->add_option("id", measured->id, "The job's id")->check(not_empty)->required();
  command->add_option("--name", measured->name, "Only this metric: loss, accuracy, bytes_sent, ...");
  command->add_option("--x", measured->x, "Over what")
      ->check(CLI::IsMember({"step", "wall", "bytes"}))
      ->capture_default_str();
  command
      ->add_option("--points", measured->points,
                   "With --csv or --json: at most so many points per series, 1 to 5000, or all; by default 500 with "
                   "--json, and all with --csv")
      ->check(CLI::IsMember({"all"}) | CLI::Range(1, 5000));
  command->add_flag("--csv", measured->csv, "Print points as CSV");

  add_job_traffic(job, choice);
  add_job_checkpoints(job, choice);
  add_one(job, choice, "stop", "Stop a job; if it trains, a checkpoint is taken first", stop);
  add_one(job, choice, "delete", "Delete an ended job with its metrics, logs and checkpoints", remove);
}

}  // namespace weir::cli
