#include "cluster/attempt/worker_logs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errc.hpp"
#include "cluster/run_on.hpp"

namespace weir::cluster {
namespace {

/// What append() has made of a log.
struct Grown {
  std::uint64_t begin = 0;  ///< of what is not published
  LogSlice unpublished;
};

/// Reads back what is not published, since that may be more than what is new: a commit may have failed.
Result<Grown> grow(const std::filesystem::path& file, job_files::LogBegin& begin, std::uint64_t offset,
                   const std::string& text, std::optional<std::uint64_t> published_to) {
  const auto appended = job_files::append_log(file, begin, offset, text);
  if (!appended) return appended.error();
  const auto from = std::min(published_to.value_or(appended->begin), appended->begin);
  auto unpublished = job_files::read_log(file, from, appended->end - from);
  if (!unpublished) return unpublished.error();
  return Grown{from, std::move(*unpublished)};
}

}  // namespace

WorkerLogs::WorkerLogs(Services& services, std::string job_id, std::uint32_t world)
    : services_(services),
      job_id_(std::move(job_id)),
      published_to_(world),
      begins_(std::make_shared<std::vector<job_files::LogBegin>>(world)) {}

net::awaitable<Result<std::optional<WorkerLogs::Unpublished>>> WorkerLogs::append(std::uint32_t rank,
                                                                                  std::uint64_t offset,
                                                                                  std::string text) {
  auto append = [file = job_files::log_file(services_.job_dir(job_id_), rank), begins = begins_, rank, offset,
                 text = std::move(text), published_to = published_to_.at(rank)] {
    return grow(file, begins->at(rank), offset, text, published_to);
  };
  auto grown = co_await run_on(services_.logs, std::move(append));
  if (!grown && grown.error().code == Errc::io) {  // no worker waits until somebody has repaired its log
    spdlog::warn("job {}: output of rank {} is lost: {}", job_id_, rank, grown.error().message());
    co_return std::nullopt;
  }
  if (!grown) co_return grown.error();
  published_to_.at(rank) = grown->begin;
  const LogSlice& slice = grown->unpublished;
  if (slice.text.empty()) co_return std::nullopt;
  const nlohmann::json data = {{"job", job_id_}, {"worker", rank}, {"offset", slice.offset}, {"text", slice.text}};
  co_return Unpublished{{StreamKind::log, job_id_, to_text(data)}, rank, slice.next};
}

}  // namespace weir::cluster
