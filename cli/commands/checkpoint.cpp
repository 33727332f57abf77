#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/download.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct Listing {
  std::string id;
};

struct Download {
  std::string id;
  std::string step;
  std::string file;
  bool force = false;
};

std::string checkpoints_path(const std::string& id) { return "/api/v1/jobs/" + percent_encoded(id) + "/checkpoints"; }

int list(const Settings& settings, const Listing& options) {
  auto answer = Api(settings).get(checkpoints_path(options.id));
  if (!answer) return complain(answer.error());
  if (settings.json) {
    print(*answer);
    return ExitCode::ok;
  }
  Table table({"STEP", "SIZE", "CREATED"});
  for (const nlohmann::json& checkpoint : member(*answer, "checkpoints")) {
    table.add({value_text(member(checkpoint, "step")), bytes_text(number(checkpoint, "bytes")),
               text(checkpoint, "created_at")});
  }
  print(table.str());
  return ExitCode::ok;
}

/// The head's record of the checkpoint at `step`, a number or "latest".
Result<nlohmann::json> find_checkpoint(const Api& api, const std::string& id, const std::string& step) {
  auto answer = api.get(checkpoints_path(id));
  if (!answer) return answer;
  const nlohmann::json& all = member(*answer, "checkpoints");  // oldest first
  if (step == "latest" && !all.empty()) return all.back();
  for (const nlohmann::json& one : all) {
    if (value_text(member(one, "step")) == step) return one;
  }
  return Error{Errc::not_found, all.empty() ? "job " + id + " has no checkpoint"
                                            : "job " + id + " has no checkpoint at step " + step +
                                                  "; `weir job checkpoints " + id + "` lists them"};
}

std::string target_of(const Download& options, const nlohmann::json& checkpoint) {
  return checkpoints_path(options.id) + "/" + value_text(member(checkpoint, "step"));
}

Result<void> check_size(const nlohmann::json& checkpoint, std::uint64_t came) {
  if (static_cast<double>(came) == number(checkpoint, "bytes")) return {};
  return Error{Errc::io, "the checkpoint should have " + value_text(member(checkpoint, "bytes")) + " bytes, but " +
                             std::to_string(came) + " came"};
}

Result<nlohmann::json> save(const Api& api, const Download& options) {
  if (auto free = check_free(options.file, options.force); !free) return free.error();
  auto checkpoint = find_checkpoint(api, options.id, options.step);
  if (!checkpoint) return checkpoint;
  NewFile file(options.file);
  if (auto opened = file.open(); !opened) return opened.error();
  auto received =
      api.client().download(target_of(options, *checkpoint), [&](std::string_view part) { return file.append(part); });
  if (!received) return received.error();
  if (auto whole = check_size(*checkpoint, file.size()); !whole) return whole.error();
  if (auto kept = file.keep(options.force); !kept) return kept.error();
  return checkpoint;
}

Result<nlohmann::json> print_checkpoint(const Api& api, const Download& options) {
  auto checkpoint = find_checkpoint(api, options.id, options.step);
  if (!checkpoint) return checkpoint;
  auto bytes = print_body(api, target_of(options, *checkpoint));
  if (!bytes) return bytes.error();
  if (auto whole = check_size(*checkpoint, *bytes); !whole) return whole.error();
  return checkpoint;
}

int fetch(const Settings& settings, const Download& options) {
  const bool to_output = options.file == "-";
  if (to_output && settings.json) {
    return complain({Errc::invalid_argument,
                     "-o - writes the checkpoint to standard output, where --json writes: they cannot be combined"});
  }
  const Api api(settings);
  auto checkpoint = to_output ? print_checkpoint(api, options) : save(api, options);
  if (!checkpoint) {
    const int code = complain(checkpoint.error());
    end_passing_on();
    return code;
  }
  if (settings.json) {
    (*checkpoint)["job"] = options.id;
    (*checkpoint)["file"] = options.file;
    print(*checkpoint);
  } else {
    say("step " + value_text(member(*checkpoint, "step")) + ", " + bytes_text(number(*checkpoint, "bytes")) + ": " +
        (to_output ? "standard output" : options.file));
  }
  return ExitCode::ok;
}

std::string check_step(const std::string& step) {
  const bool digits = !step.empty() && step.find_first_not_of("0123456789") == std::string::npos;
  return digits || step == "latest" ? "" : "a checkpoint is named by its step, a whole number, or latest";
}

}  // namespace

void add_job_checkpoints(CLI::App& job, Choice& choice) {
  auto listed = std::make_shared<Listing>();
  add_command(job, choice, "checkpoints", "A job's checkpoints, oldest first", listed, list)
      ->add_option("id", listed->id, "The job's id")
      ->check(not_empty)
      ->required();

  auto fetched = std::make_shared<Download>();
  CLI::App* command =
      add_command(job, choice, "checkpoint", "Download a checkpoint, a safetensors file", fetched, fetch);
  command->add_option("id", fetched->id, "The job's id")->check(not_empty)->required();
  command->add_option("step", fetched->step, "The checkpoint's step, or latest")->required()->check(check_step);
  command->add_option("--output,-o", fetched->file, "The file to write; - for standard output")->required();
  command->add_flag("--force", fetched->force, "Replace the file if there is one");
}

}  // namespace weir::cli
