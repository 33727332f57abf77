#include "cluster/attempt/worker_logs.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/errc.hpp"
#include "cluster/run_on.hpp"

namespace weir::cluster {

WorkerLogs::WorkerLogs(Services& services, std::string job_id, std::uint32_t world)
    : services_(services),
      job_id_(std::move(job_id)),
      begins_(std::make_shared<std::vector<job_files::LogBegin>>(world)) {}

net::awaitable<Result<std::optional<change::Publish>>> WorkerLogs::append(std::uint32_t rank, std::uint64_t offset,
                                                                          std::string text) {
  auto append = [file = job_files::log_file(services_.job_dir(job_id_), rank), begins = begins_, rank, offset,
                 text = std::move(text)] { return job_files::append_log(file, begins->at(rank), offset, text); };
  auto appended = co_await run_on(services_.logs, std::move(append));
  if (!appended && appended.error().code == Errc::io) {  // no worker waits until somebody has repaired its log
    spdlog::warn("job {}: output of rank {} is lost: {}", job_id_, rank, appended.error().message());
    co_return std::nullopt;
  }
  if (!appended) co_return appended.error();
  if (appended->text.empty()) co_return std::nullopt;
  const nlohmann::json data = {
      {"job", job_id_}, {"worker", rank}, {"offset", appended->offset}, {"text", appended->text}};
  co_return change::Publish{StreamKind::log, job_id_, to_text(data)};
}

}  // namespace weir::cluster
