#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "base/errc.hpp"
#include "base/json_text.hpp"
#include "base/utf8.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/follow.hpp"
#include "cli/format.hpp"
#include "cli/set_option.hpp"

namespace weir::cli {
namespace {

struct Submit {
  std::string file;
  std::vector<std::string> set;
  std::string resume;
  std::string idempotency_key;
  bool follow = false;
  bool dry_run = false;
};

Result<nlohmann::json> read_spec(const std::string& file) {
  std::string text;
  if (file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored)) {
      return Error{Errc::invalid_argument, file + " is a folder; give a job spec in it"};
    }
    std::ifstream stream(file);
    if (!stream) return Error{Errc::invalid_argument, "cannot read " + file};
    text.assign(std::istreambuf_iterator<char>(stream), {});
  }
  const std::string name = file == "-" ? "standard input" : file;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Error{Errc::invalid_argument, name + " is empty; a job spec is a JSON object"};
  }
  auto spec = parse_json_text(text);
  if (!spec) return Error{Errc::invalid_argument, name + " " + spec.error().context};
  if (!spec->is_object()) return Error{Errc::invalid_argument, name + " is no JSON object, as a job spec is"};
  return spec;
}

/// Sets checkpoint.resume_from to "ID" or "ID:STEP".
Result<void> apply_resume(nlohmann::json& spec, const std::string& resume) {
  if (!is_utf8(resume)) return Error{Errc::invalid_argument, "--resume " + resume + ": this is not UTF-8"};
  const std::size_t colon = resume.find(':');
  nlohmann::json from{{"job", resume.substr(0, colon)}, {"step", nullptr}};
  if (colon != std::string::npos) {
    const auto step = nlohmann::json::parse(resume.substr(colon + 1), nullptr, false);
    if (!step.is_number_unsigned()) {
      return Error{Errc::invalid_argument, "--resume " + resume + ": write it as JOB or JOB:STEP"};
    }
    from["step"] = step;
  }
  nlohmann::json& checkpoint = spec["checkpoint"];
  if (!checkpoint.is_object() && !checkpoint.is_null()) {
    return Error{Errc::invalid_argument, "--resume: \"checkpoint\" in the spec is no object"};
  }
  checkpoint["resume_from"] = std::move(from);
  return {};
}

/// Prints the head's warnings about a spec that it accepts.
void say_warnings(const nlohmann::json& answer) {
  const nlohmann::json& warnings = member(answer, "warnings");
  if (!warnings.is_array()) return;
  for (const nlohmann::json& warning : warnings) {
    say("warning: " + text(warning, "pointer") + ": " + text(warning, "detail"));
  }
}

int validate(const Settings& settings, const Api& api, const nlohmann::json& spec) {
  auto answer = api.post("/api/v1/jobs/validate", spec);
  if (!answer) return complain(answer.error());
  say_warnings(*answer);
  if (settings.json) {
    print(*answer);
    return ExitCode::ok;
  }
  print(member(*answer, "spec"));
  const nlohmann::json& placement = member(*answer, "placement");
  if (member(placement, "feasible") == true) {
    for (const nlohmann::json& worker : member(placement, "workers")) {
      say("rank " + value_text(member(worker, "rank")) + ", a " + text(worker, "role") + ", would run on " +
          text(worker, "node"));
    }
  } else {
    say("It would wait: " + text(placement, "reason"));
  }
  const nlohmann::json& round = member(*answer, "round_bytes");
  if (member(round, "sent_per_worker").is_number()) {
    say("Each worker sends about " + bytes_text(number(round, "sent_per_worker")) +
        " in each exchange; a dense ring would send " + bytes_text(number(round, "dense_per_worker")) + ".");
  }
  return ExitCode::ok;
}

std::string random_key() {
  std::random_device entropy;
  std::string key;
  for (int i = 0; i < 32; ++i) key += "0123456789abcdef"[entropy() & 15];
  return key;
}

/// Submits `spec` and returns the job. If the answer gets lost, the request is repeated once: the head recognizes it by
/// its key, so there is only one job.
Result<nlohmann::json> post_job(const Api& api, const nlohmann::json& spec, const std::string& key) {
  bool received = false;  // perhaps
  auto job = api.call({.verb = Verb::post,
                       .target = "/api/v1/jobs",
                       .body = spec.dump(),
                       .headers = {{"Idempotency-Key", key}},
                       .again = [](const Error& error) { say(error.context + "; asking again"); },
                       .sent = &received});
  if (job || !received) return job;
  return Error{job.error().code, job.error().context +
                                     "\n  It may have received the job. The same command with "
                                     "--idempotency-key " +
                                     key + " makes no second one"};
}

int submit(const Settings& settings, const Submit& options) {
  auto spec = read_spec(options.file);
  if (!spec) return complain(spec.error());
  for (const std::string& assignment : options.set) {
    if (auto set = apply_set(*spec, assignment); !set) return complain(set.error());
  }
  if (!options.resume.empty()) {
    if (auto resumed = apply_resume(*spec, options.resume); !resumed) return complain(resumed.error());
  }
  const Api api(settings);
  if (options.dry_run) return validate(settings, api, *spec);
  auto job = post_job(api, *spec, options.idempotency_key.empty() ? random_key() : options.idempotency_key);
  if (!job) return complain(job.error());
  say_warnings(*job);
  const std::string id = text(*job, "id");
  if (!options.follow) {
    if (settings.json) {
      print(*job);
    } else {
      print(id);
    }
    if (const std::string reason = text(*job, "reason"); !reason.empty()) say("The job waits: " + reason);
    return ExitCode::ok;
  }
  if (!settings.json) print(id);
  return follow_job(api, id, settings.json);
}

}  // namespace

void add_submit(CLI::App& program, Choice& choice) {
  auto options = std::make_shared<Submit>();
  CLI::App* command = add_command(program, choice, "submit", "Submit a job and print its id", options, submit);
  command->add_option("file", options->file, "The job spec, JSON; - for standard input")->required();
  command->add_option("--set", options->set, "Change the spec: PATH=VALUE, e.g. training.epochs=3 (repeatable)")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--resume", options->resume, "Go on from a checkpoint: JOB (its newest) or JOB:STEP")
      ->check(not_empty);
  command
      ->add_option("--idempotency-key", options->idempotency_key,
                   "A name for this request: the same one again, with the same spec, makes no second job. By default "
                   "each command has its own")
      ->check([](const std::string& key) -> std::string {
        const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
        return plain && !key.empty() && key.size() <= 200 ? "" : "1 to 200 visible ASCII characters";
      });
  command->add_flag("--follow,-f", options->follow, "Show progress; exit with 0 only if the job succeeds");
  command->add_flag("--dry-run", options->dry_run, "Only check: the full spec, the placement, bytes per exchange");
}

}  // namespace weir::cli
