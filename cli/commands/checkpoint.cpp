#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
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

/// A file that appears under its name only when it is complete. Until then its bytes are in a file beside it, which is
/// deleted with this object.
class NewFile {
 public:
  explicit NewFile(std::string name) : name_(std::move(name)), temporary_(name_ + ".part-XXXXXX") {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Result<void> open() {
    descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    return descriptor_ < 0 ? failed("cannot make a file beside " + name_) : Result<void>();
  }

  Result<void> append(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed("cannot write " + temporary_);
      bytes.remove_prefix(static_cast<std::size_t>(written));
      size_ += static_cast<std::uint64_t>(written);
    }
    return {};
  }

  std::uint64_t size() const { return size_; }

  /// Gives the file its name. Fails with: conflict (there is one already and `replace` is false), io.
  Result<void> keep(bool replace) {
    if (::fchmod(descriptor_, 0644) != 0 || ::fsync(descriptor_) != 0) return failed("cannot write " + temporary_);
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, name_.c_str(), replace ? 0 : RENAME_NOREPLACE) != 0) {
      if (errno == EEXIST) return Error{Errc::conflict, name_ + " has come to be meanwhile; --force replaces it"};
      return failed("cannot make " + name_);
    }
    temporary_.clear();
    return {};
  }

 private:
  static Error failed(const std::string& what) {
    return {Errc::io, what + ": " + std::generic_category().message(errno)};
  }

  const std::string name_;
  std::string temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

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

Result<nlohmann::json> download(const Api& api, const Download& options) {
  std::error_code ignored;
  if (!options.force && std::filesystem::exists(std::filesystem::symlink_status(options.file, ignored))) {
    return Error{Errc::conflict, options.file + " is there already; --force replaces it"};
  }
  auto checkpoint = find_checkpoint(api, options.id, options.step);
  if (!checkpoint) return checkpoint;
  NewFile file(options.file);
  if (auto opened = file.open(); !opened) return opened.error();
  const std::string target = checkpoints_path(options.id) + "/" + value_text(member(*checkpoint, "step"));
  auto received = api.client().download(target, [&](std::string_view part) { return file.append(part); });
  if (!received) return received.error();
  if (const auto expected = number(*checkpoint, "bytes"); static_cast<double>(file.size()) != expected) {
    return Error{Errc::io, "the checkpoint should have " + value_text(member(*checkpoint, "bytes")) + " bytes, but " +
                               std::to_string(file.size()) + " came; nothing is kept"};
  }
  if (auto kept = file.keep(options.force); !kept) return kept.error();
  return checkpoint;
}

int fetch(const Settings& settings, const Download& options) {
  const Api api(settings);
  auto checkpoint = download(api, options);
  if (!checkpoint) return complain(checkpoint.error());
  if (settings.json) {
    (*checkpoint)["job"] = options.id;
    (*checkpoint)["file"] = options.file;
    print(*checkpoint);
  } else {
    say("step " + value_text(member(*checkpoint, "step")) + ", " + bytes_text(number(*checkpoint, "bytes")) + ": " +
        options.file);
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
      ->required();

  auto fetched = std::make_shared<Download>();
  CLI::App* command =
      add_command(job, choice, "checkpoint", "Download a checkpoint, a safetensors file", fetched, fetch);
  command->add_option("id", fetched->id, "The job's id")->required();
  command->add_option("step", fetched->step, "The checkpoint's step, or latest")->required()->check(check_step);
  command->add_option("--output,-o", fetched->file, "The file to write")->required();
  command->add_flag("--force", fetched->force, "Replace the file if there is one");
}

}  // namespace weir::cli
