#include "api/routes/jobs.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/chrome_trace.hpp"
#include "api/file_source.hpp"
#include "api/log_source.hpp"
#include "api/metric_source.hpp"
#include "api/paging.hpp"
#include "api/problem.hpp"
#include "api/services.hpp"
#include "api/traffic_json.hpp"
#include "base/errc.hpp"

namespace weir::api {
namespace {

using nlohmann::json;

constexpr std::size_t idempotency_key_max = 200;
constexpr std::int64_t log_bytes_max = 1 << 20;

std::string location(const std::string& id) { return "/api/v1/jobs/" + percent_encode(id); }

Reply spec_problems(const std::vector<protocol::Problem>& problems) {
  std::vector<FieldError> errors;
  for (const auto& p : problems) errors.push_back({p.pointer, p.message, p.suggestion});
  std::string detail = "the job spec is not valid";
  if (!errors.empty()) {
    const auto& first = errors.front();
    detail += ": " + (first.pointer.empty() ? "" : first.pointer + ": ") + first.detail;
  }
  return problem(422, std::move(detail), std::move(errors));
}

Result<cluster::JobQuery> job_query(const Target& target) {
  cluster::JobQuery query;
  if (const auto state = target.find("state"); state && !state->empty()) {
    query.state = cluster::job_state(*state);
    if (!query.state) return Error{Errc::malformed, "state must be PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED"};
  }
  query.text = target.find("q").value_or("");
  query.cursor = target.find("cursor").value_or("");
  const auto limit = page_limit(target);
  if (!limit) return limit.error();
  query.limit = *limit;
  return query;
}

/// Sets the series that `worker=` asks for: those of a rank, of the "job" as a whole, or "all".
Result<void> choose_workers(std::string_view which, cluster::MetricQuery& query) {
  query.all_workers = which == "all";
  if (which == "all" || which == "job") return {};
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), rank);
  if (which.empty() || error != std::errc{} || end != which.data() + which.size())
    return Error{Errc::malformed, "worker must be a rank, \"job\" or \"all\""};
  query.worker = rank;
  return {};
}

bool asks_for_all_points(const Target& target) { return target.find("points") == "all"; }

Result<cluster::MetricQuery> metric_query(const Request& request) {
  const auto& target = request.target;
  cluster::MetricQuery query;
  query.job_id = request.parameter("id");
  auto names = target.find("name").value_or("");
  while (!names.empty()) {
    const auto end = names.find(',');
    if (end != 0) query.names.emplace_back(names.substr(0, end));
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + 1);
  }
  const auto axis = cluster::metric_axis(target.find("x").value_or("step"));
  if (!axis) return Error{Errc::malformed, "x must be step, wall or bytes"};
  query.x = *axis;
  const auto from = target.number("from");
  if (!from) return from.error();
  const auto to = target.number("to");
  if (!to) return to.error();
  query.from = *from;
  query.to = *to;
  if (!asks_for_all_points(target)) {
    const auto points = target.integer("points", 500, 1, 5000);
    if (!points) return Error{Errc::malformed, points.error().context + ", or \"all\""};
    query.points = static_cast<std::uint32_t>(*points);
  }
  if (auto chosen = choose_workers(target.find("worker").value_or("all"), query); !chosen) return chosen.error();
  return query;
}

/// The placement of a dry run, with the member names of the API.
json placement_json(const json& placement) {
  return {{"feasible", placement.value("fits", false)},
          {"reason", placement.value("reason", json())},
          {"workers", placement.value("workers", json::array())}};
}

json round_json(const json& round) {
  return {{"sent_per_worker", round.value("bytes_sent", json())},
          {"dense_per_worker", round.value("bytes_dense", json())}};
}

json warnings_json(const std::vector<cluster::Warning>& warnings) {
  json list = json::array();
  for (const auto& warning : warnings) list.push_back({{"pointer", warning.pointer}, {"detail", warning.detail}});
  return list;
}

/// Parses a step number in a path; anything else names nothing that exists.
std::optional<std::uint64_t> step_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

json sizes_json(const std::vector<cluster::LogSize>& sizes) {
  json list = json::array();
  for (const auto& one : sizes) list.push_back({{"worker", one.worker}, {"size", one.size}});
  return list;
}

/// A Content-Disposition value with a file name that is safe for shells and browsers.
std::string attachment(std::string name) {
  for (char& c : name)
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-' && c != '.') c = '_';
  return "attachment; filename=\"" + name + "\"";
}

}  // namespace

net::awaitable<Reply> list_jobs(Services& services, const Request& request) {
  auto query = job_query(request.target);
  if (!query) co_return problem(query.error());
  auto page = co_await services.head.jobs(std::move(*query));
  if (!page) co_return problem(as_bad_request(page.error()));
  json jobs = json::array();
  for (const auto& job : page->jobs) jobs.push_back(cluster::to_json(job));
  json counts = json::object();
  for (const auto& [state, count] : page->counts) counts[std::string(cluster::to_string(state))] = count;
  co_return page_reply(request, "jobs", std::move(jobs), page->next, {{"counts", std::move(counts)}});
}

net::awaitable<Reply> submit_job(Services& services, const Request& request) {
  const std::string key(request.header("idempotency-key").value_or(""));
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (key.size() > idempotency_key_max || !plain || (key.empty() && request.header("idempotency-key")))
    co_return problem(400, "Idempotency-Key must be 1 to 200 visible ASCII characters");
  auto spec = parse_json(request.body);
  if (!spec) co_return problem(spec.error());
  auto submission = co_await services.head.submit(std::move(*spec), key);
  if (!submission && submission.error().code == Errc::conflict) co_return problem(422, submission.error().message());
  if (!submission) co_return problem(submission.error());
  if (!submission->job) co_return spec_problems(submission->problems);
  json answer = cluster::to_json(*submission->job);
  answer["warnings"] = warnings_json(submission->warnings);
  co_return json_reply(201, answer).with("Location", location(submission->job->id));
}

net::awaitable<Reply> validate_job(Services& services, const Request& request) {
  auto spec = parse_json(request.body);
  if (!spec) co_return problem(spec.error());
  auto validation = co_await services.head.validate(std::move(*spec));
  if (!validation) co_return problem(validation.error());
  if (!validation->problems.empty()) co_return spec_problems(validation->problems);
  co_return json_reply(200, {{"valid", true},
                             {"spec", std::move(validation->spec)},
                             {"placement", placement_json(validation->placement)},
                             {"round_bytes", round_json(validation->round)},
                             {"warnings", warnings_json(validation->warnings)}});
}

net::awaitable<Reply> show_job(Services& services, const Request& request) {
  const auto job = co_await services.head.job(request.parameter("id"));
  if (!job) co_return problem(job.error());
  const auto workers = co_await services.head.workers(job->id);
  if (!workers) co_return problem(workers.error());
  json result = cluster::to_json(*job);
  result["workers"] = json::array();
  for (const auto& worker : *workers) result["workers"].push_back(cluster::to_json(worker));
  co_return json_reply(200, result);
}

net::awaitable<Reply> delete_job(Services& services, const Request& request) {
  const auto removed = co_await services.head.remove_job(request.parameter("id"));
  if (!removed) co_return problem(removed.error());
  Reply reply;
  reply.status = 204;
  co_return reply;
}

net::awaitable<Reply> stop_job(Services& services, const Request& request) {
  const auto job = co_await services.head.stop_job(request.parameter("id"));
  if (!job) co_return problem(job.error());
  co_return json_reply(cluster::terminal(job->state) ? 200 : 202, cluster::to_json(*job));
}

net::awaitable<Reply> job_metrics(Services& services, const Request& request) {
  const auto format = request.target.find("format").value_or("json");
  if (format != "json" && format != "csv") co_return problem(400, "format must be json or csv");
  auto query = metric_query(request);
  if (!query) co_return problem(query.error());
  const auto& id = request.parameter("id");
  MetricText text(format == "csv" ? MetricFormat::csv : MetricFormat::json, id, query->x);
  Reply reply;
  if (asks_for_all_points(request.target)) {
    auto reader = co_await services.head.metric_points(std::move(*query));
    if (!reader) co_return problem(reader.error());
    reply.body = Reply::Streamed{metric_source(std::move(*reader), std::move(text)), std::nullopt};
  } else {
    const auto series = co_await services.head.metrics(std::move(*query));
    if (!series) co_return problem(as_bad_request(series.error()));
    std::string body;
    for (const auto& one : *series) text.add(body, one.name, one.worker, one.points);
    text.end(body);
    reply.body = std::move(body);
  }
  if (format == "json") co_return std::move(reply).with("Content-Type", "application/json");
  co_return std::move(reply)
      .with("Content-Type", "text/csv; charset=utf-8")
      .with("Content-Disposition", attachment(id + "-metrics.csv"));
}

net::awaitable<Reply> job_traffic(Services& services, const Request& request) {
  const auto& id = request.parameter("id");
  cluster::TrafficQuery query{.job_id = id, .sampled = false, .slowest = false};
  const auto workers = co_await services.head.traffic(std::move(query));
  if (!workers) co_return problem(workers.error());
  co_return json_reply(200, traffic_json(id, *workers));
}

net::awaitable<Reply> job_trace(Services& services, const Request& request) {
  const auto& id = request.parameter("id");
  const auto step = request.target.find("step").value_or("sampled");
  if (step != "sampled" && step != "slowest") co_return problem(400, "step must be sampled or slowest");
  const auto worker = request.target.integer("worker", -1, 0, UINT32_MAX);
  if (!worker) co_return problem(worker.error());
  cluster::TrafficQuery query{
      .job_id = id, .totals = false, .sampled = step == "sampled", .slowest = step == "slowest"};
  if (*worker >= 0) query.worker = static_cast<std::uint32_t>(*worker);
  const auto workers = co_await services.head.traffic(std::move(query));
  if (!workers) co_return problem(workers.error());
  auto reply = json_reply(200, chrome_trace(id, *workers, step == "slowest" ? TraceStep::slowest : TraceStep::sampled));
  co_return std::move(reply).with("Content-Disposition", attachment(id + "-trace.json"));
}

net::awaitable<Reply> job_logs(Services& services, const Request& request) {
  const auto& id = request.parameter("id");
  const auto format = request.target.find("format").value_or("json");
  if (format != "json" && format != "text") co_return problem(400, "format must be json or text");
  const auto worker = request.target.integer("worker", 0, 0, UINT32_MAX);
  if (!worker) co_return problem(worker.error());
  const auto rank = static_cast<std::uint32_t>(*worker);
  const auto asked = request.target.integer("offset", 0, INT64_MIN + 1, INT64_MAX);
  if (!asked) co_return problem(asked.error());
  const auto limit = request.target.integer("limit", 65536, 1, log_bytes_max);
  if (!limit) co_return problem(limit.error());

  auto offset = static_cast<std::uint64_t>(*asked);
  if (*asked < 0 || format == "text") {
    const auto end = co_await services.head.logs(id, rank, INT64_MAX, 1);
    if (!end) co_return problem(end.error());
    if (*asked < 0) offset = end->size - std::min(end->size, static_cast<std::uint64_t>(-*asked));
    if (format == "text") {
      const bool whole = !request.target.find("limit");
      const auto stop = whole ? end->size : std::min(end->size, offset + static_cast<std::uint64_t>(*limit));
      Reply reply;
      reply.body = Reply::Streamed{log_source(services.head, id, rank, offset, stop), std::nullopt};
      co_return std::move(reply)
          .with("Content-Type", "text/plain; charset=utf-8")
          .with("Content-Disposition", attachment(id + "-worker-" + std::to_string(rank) + ".log"));
    }
  }
  const auto slice = co_await services.head.logs(id, rank, offset, static_cast<std::uint64_t>(*limit));
  if (!slice) co_return problem(slice.error());
  const auto sizes = co_await services.head.log_sizes(id);
  if (!sizes) co_return problem(sizes.error());
  co_return json_reply(200, {{"job", id},
                             {"worker", rank},
                             {"offset", slice->offset},
                             {"next_offset", slice->next},
                             {"size", slice->size},
                             {"complete", slice->complete},
                             {"workers", sizes_json(*sizes)},
                             {"text", slice->text}});
}

net::awaitable<Reply> job_events(Services& services, const Request& request) {
  co_return co_await events_page(services, request, request.parameter("id"));
}

net::awaitable<Reply> job_checkpoints(Services& services, const Request& request) {
  const auto checkpoints = co_await services.head.checkpoints(request.parameter("id"));
  if (!checkpoints) co_return problem(checkpoints.error());
  json list = json::array();
  for (const auto& checkpoint : *checkpoints) list.push_back(cluster::to_json(checkpoint));
  co_return page_reply(request, "checkpoints", std::move(list), "");
}

net::awaitable<Reply> download_checkpoint(Services& services, const Request& request) {
  const auto& id = request.parameter("id");
  const auto step = step_number(request.parameter("step"));
  if (!step) co_return problem(404, "a checkpoint is named by its step, a whole number");
  const auto path = co_await services.head.checkpoint_path(id, *step);
  if (!path) co_return problem(path.error());
  auto file = open_file(*path, services.blocking);
  if (!file) co_return problem(file.error());
  Reply reply;
  reply.body = std::move(*file);
  co_return std::move(reply)
      .with("Content-Type", "application/octet-stream")
      .with("Content-Disposition", attachment(id + "-step-" + std::to_string(*step) + ".safetensors"));
}

}  // namespace weir::api
