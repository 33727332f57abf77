#include "cluster/services.hpp"

namespace weir::cluster {

std::string Services::new_id() {
  constexpr std::string_view digits = "0123456789abcdefghjkmnpqrstvwxyz";  // Crockford's base 32
  auto milliseconds = static_cast<std::uint64_t>(now().time_since_epoch().count());
  std::string id(26, '0');
  for (int i = 9; i >= 0; --i, milliseconds >>= 5) id[static_cast<std::size_t>(i)] = digits[milliseconds & 31];
  for (std::size_t i = 10; i < id.size(); ++i) id[i] = digits[random() & 31];
  return id;
}

change::AddEvent Services::event(std::string job_id, Severity severity, std::string kind, std::string message) const {
  EventRecord event;
  event.time = now();
  event.job_id = std::move(job_id);
  event.severity = severity;
  event.kind = std::move(kind);
  event.message = std::move(message);
  return {std::move(event)};
}

change::Publish job_item(const JobRecord& job, StreamKind kind) { return {kind, job.id, to_text(to_json(job))}; }

change::AddEvent phase_event(const Services& services, const JobRecord& job) {
  return services.event(job.id, Severity::info, "job.phase", "phase " + std::string(to_string(job.phase)));
}

change::Publish metrics_item(const JobRecord& job, const std::vector<MetricRow>& rows) {
  nlohmann::json points = nlohmann::json::array();
  for (const auto& row : rows) {
    points.push_back({row.name, row.worker ? nlohmann::json(*row.worker) : nlohmann::json(nullptr), row.step,
                      row.wall_seconds, row.wire_bytes, row.value});
  }
  const nlohmann::json data = {{"job", job.id}, {"restarts", job.restarts}, {"points", std::move(points)}};
  return {StreamKind::metrics, job.id, to_text(data)};
}

}  // namespace weir::cluster
