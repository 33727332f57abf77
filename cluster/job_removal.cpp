#include <spdlog/spdlog.h>

#include <filesystem>
#include <system_error>

#include "base/errc.hpp"
#include "cluster/job_files.hpp"
#include "cluster/jobs.hpp"
#include "cluster/run_on.hpp"

namespace weir::cluster {

net::awaitable<Result<void>> Jobs::remove_job(std::string id) {
  if (!removing_.insert(id).second) co_return Error{Errc::conflict, "job " + id + " is being deleted"};
  auto removed = co_await remove_ended(id);
  removing_.erase(id);
  co_return removed;
}

net::awaitable<Result<void>> Jobs::remove_ended(std::string id) {
  auto job = co_await services_.store->job(id);
  if (!job) co_return job.error();
  if (!*job) co_return Error{Errc::not_found, "there is no job " + id};
  if (!terminal((*job)->state)) {
    const bool stopping = (*job)->phase == JobPhase::stopping;
    co_return Error{Errc::conflict,
                    "job " + id +
                        (stopping ? " is still stopping: wait until it is STOPPED"
                                  : " is " + std::string(to_string((*job)->state)) + "; stop it first")};
  }
  std::vector<Change> changes;
  changes.push_back(change::RemoveJob{id});
  changes.push_back(change::Publish{StreamKind::job_removed, id, to_text({{"id", id}})});
  // Under this name recover() knows them if the head ends before it has removed them.
  const auto dir = services_.job_dir(id);
  const auto set_aside = services_.job_dir(id + std::string(removed_suffix));
  auto nothing = [] { return true; };
  co_await run_on(services_.logs, std::move(nothing));  // what it printed last is written before, not behind it
  co_await move_files(dir, set_aside);
  auto committed = co_await services_.store->commit(std::move(changes));
  if (committed) {
    co_await remove_files(set_aside);
  } else {
    co_await move_files(set_aside, dir);
  }
  co_return committed;
}

net::awaitable<void> Jobs::move_files(std::filesystem::path from, std::filesystem::path to) {
  auto move = [from, to] {
    std::error_code error;
    std::filesystem::rename(from, to, error);
    return error;
  };
  const auto error = co_await run_on(services_.files, std::move(move));
  if (!error || error == std::errc::no_such_file_or_directory) co_return;  // a job may have no files
  spdlog::warn("{} cannot be moved to {}: {}", from.string(), to.string(), error.message());
}

net::awaitable<void> Jobs::remove_files(std::filesystem::path dir) {
  auto remove = [dir] {
    std::error_code error;
    std::filesystem::remove_all(dir, error);
    return error;
  };
  if (const auto error = co_await run_on(services_.files, std::move(remove))) {
    spdlog::warn("{} is left until the head starts again: {}", dir.string(), error.message());
  }
}

/// A job that has ended does not go on from it any more. The disk may be slow, so this comes last.
net::awaitable<void> Jobs::remove_resume_file(std::string id) {
  auto remove = [file = job_files::resume_file(services_.job_dir(id))] {
    std::error_code ignored;  // it goes with the job
    return std::filesystem::remove(file, ignored);
  };
  co_await run_on(services_.files, std::move(remove));
}

}  // namespace weir::cluster
