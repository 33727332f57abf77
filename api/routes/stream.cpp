#include "api/routes/stream.hpp"

#include <charconv>
#include <set>

#include "api/event_source.hpp"
#include "api/problem.hpp"
#include "api/services.hpp"
#include "base/errc.hpp"

namespace weir::api {
namespace {

/// The last lines of a log may be written after their job's end is recorded, by the time that an output batch takes.
constexpr auto log_patience = std::chrono::milliseconds(500);

struct Jobs {
  std::set<std::string> ids;
  bool nothing_else = true;  ///< every topic is about a job
  bool logs = false;
};

/// The jobs that a list of topics names; Topics has already checked the list.
Jobs jobs_of(std::string_view topics) {
  Jobs jobs;
  while (!topics.empty()) {
    const auto end = topics.find(',');
    const auto topic = topics.substr(0, end);
    const auto colon = topic.find(':');
    if (colon == std::string_view::npos)
      jobs.nothing_else = false;
    else
      jobs.ids.emplace(topic.substr(colon + 1));
    jobs.logs = jobs.logs || topic.starts_with("logs:");
    if (end == std::string_view::npos) break;
    topics.remove_prefix(end + 1);
  }
  return jobs;
}

Result<std::optional<std::uint64_t>> last_event_id(const Request& request) {
  auto text = request.header("last-event-id");
  if (!text) text = request.target.find("last_event_id");
  if (!text || text->empty()) return std::optional<std::uint64_t>{};
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size())
    return Error{Errc::malformed, "Last-Event-ID must be the id of an event of this stream"};
  return std::optional{value};
}

}  // namespace

net::awaitable<Reply> stream(Services& services, const Request& request) {
  const std::string list(request.target.find("topics").value_or(""));
  auto topics = cluster::Topics::parse(list);
  if (!topics) co_return problem(400, topics.error().message());
  const auto after = last_event_id(request);
  if (!after) co_return problem(after.error());
  const auto jobs = jobs_of(list);

  auto subscription = co_await services.head.subscribe(std::move(*topics), *after);
  if (!subscription) co_return problem(subscription.error());
  // Read after the subscription began, so that the end is either in the stream or known here.
  std::optional<cluster::JobRecord> job;
  for (const auto& id : jobs.ids) {
    auto found = co_await services.head.job(id);
    if (!found) co_return problem(found.error());
    job = std::move(*found);
  }
  EventSource::Options options;
  options.heartbeat = services.limits.heartbeat;
  if (jobs.logs) options.log_patience = log_patience;
  if (jobs.nothing_else && jobs.ids.size() == 1) {
    options.ends_with_job = true;
    if (cluster::terminal(job->state)) options.ended_job = std::move(job);
  }
  if (request.proof == Proof::session) {
    options.admitted = [&sessions = services.access.sessions(), id = services.access.session_of(request).value_or("")] {
      return sessions.holds(id);
    };
  }
  Reply reply;
  if (request.method != "HEAD")
    reply.body = Reply::Streamed{
        std::make_unique<EventSource>(std::move(*subscription), std::move(options), services.traffic.streams), {}};
  co_return std::move(reply)
      .with("Content-Type", "text/event-stream")
      .with("Cache-Control", "no-store")
      .with("X-Accel-Buffering", "no");  // makes proxies that know it pass each event on at once
}

}  // namespace weir::api
