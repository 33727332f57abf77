#include "api/exposition.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

#include "api/services.hpp"

namespace weir::api {
namespace {

using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Writes families of samples one after another.
class Writer {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void sample(double value, Labels labels = {}, std::string_view suffix = "") {
    text_.append(name_).append(suffix);
    char separator = '{';
    for (const auto& [label, of] : labels) {
      text_.append(1, std::exchange(separator, ',')).append(label).append("=\"");
      for (const char c : of) {
        if (c == '\\' || c == '"') text_ += '\\';
        text_ += c == '\n' ? ' ' : c;
      }
      text_ += '"';
    }
    if (separator == ',') text_ += '}';
    char number[32];
    const auto end = std::to_chars(number, number + sizeof number, value).ptr;
    text_.append(" ").append(number, end).append("\n");
  }

  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, "gauge", help);
    sample(value);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
};

void write_traffic(Writer& out, const Traffic& traffic) {
  const auto rows = traffic.rows();
  out.family("weir_http_requests_total", "counter", "Requests answered, by method, route and status.");
  for (const auto& [key, row] : rows) {
    const auto& [method, pattern, status] = key;
    out.sample(static_cast<double>(row.requests),
               {{"method", method}, {"route", pattern}, {"code", std::to_string(status)}});
  }
  out.family("weir_http_request_seconds", "summary", "Time from the whole request to the whole answer.");
  for (const auto& [key, row] : rows) {
    const auto& [method, pattern, status] = key;
    const std::string code = std::to_string(status);
    const Labels labels = {{"method", method}, {"route", pattern}, {"code", code}};
    out.sample(row.seconds, labels, "_sum");
    out.sample(static_cast<double>(row.requests), labels, "_count");
  }
  out.family("weir_http_sent_bytes_total", "counter", "Bytes of answers' bodies.");
  out.sample(static_cast<double>(traffic.sent_bytes.load()));
  out.gauge("weir_http_connections", "Open connections.", static_cast<double>(traffic.connections.load()));
  out.gauge("weir_http_streams", "Open event streams.", static_cast<double>(traffic.streams.load()));
}

void write_nodes(Writer& out, const std::vector<cluster::NodeRecord>& nodes) {
  out.family("weir_nodes", "gauge", "Nodes, by state.");
  for (const auto state : {cluster::NodeState::alive, cluster::NodeState::draining, cluster::NodeState::lost}) {
    double count = 0;
    for (const auto& node : nodes) count += node.state == state ? 1 : 0;
    out.sample(count, {{"state", cluster::to_string(state)}});
  }
  std::map<std::string, std::pair<double, double>> amounts;
  for (const auto& node : nodes) {
    if (node.state == cluster::NodeState::lost) continue;
    for (const auto& [resource, amount] : node.resources) amounts[resource].first += amount;
    for (const auto& [resource, amount] : node.used) amounts[resource].second += amount;
  }
  out.family("weir_resource_total", "gauge", "What the living nodes have, by resource.");
  for (const auto& [resource, amount] : amounts) out.sample(amount.first, {{"resource", resource}});
  out.family("weir_resource_allocated", "gauge", "What of it is granted to workers.");
  for (const auto& [resource, amount] : amounts) out.sample(amount.second, {{"resource", resource}});
}

/// A gauge of every GPU of which `value_of` knows it; what is unknown has no sample.
template <class Value>
void write_gpu_gauge(Writer& out, const std::vector<cluster::NodeRecord>& nodes, std::string_view name,
                     std::string_view help, Value value_of) {
  out.family(name, "gauge", help);
  for (const auto& node : nodes) {
    for (const auto& gpu : node.gpus) {
      const auto value = value_of(gpu);
      const std::string index = std::to_string(gpu.gpu.index);
      if (value) out.sample(static_cast<double>(*value), {{"node", node.name}, {"gpu", index}, {"uuid", gpu.gpu.uuid}});
    }
  }
}

void write_gpus(Writer& out, const std::vector<cluster::NodeRecord>& all) {
  using cluster::GpuRecord;
  std::vector<cluster::NodeRecord> nodes;
  for (const auto& node : all) {
    if (node.state != cluster::NodeState::lost && !node.gpus.empty()) nodes.push_back(node);
  }
  if (nodes.empty()) return;
  write_gpu_gauge(out, nodes, "weir_node_gpu_present", "1 if the node finds the GPU, 0 if it has vanished.",
                  [](const GpuRecord& gpu) { return std::optional(gpu.lost ? 0 : 1); });
  write_gpu_gauge(out, nodes, "weir_node_gpu_utilization_ratio", "Share of the time in which a kernel ran.",
                  [](const GpuRecord& gpu) { return gpu.sample.utilization; });
  write_gpu_gauge(out, nodes, "weir_node_gpu_memory_used_bytes", "Memory allocated on the GPU.",
                  [](const GpuRecord& gpu) { return gpu.sample.memory_used_bytes; });
  write_gpu_gauge(out, nodes, "weir_node_gpu_memory_total_bytes", "Memory of the GPU.", [](const GpuRecord& gpu) {
    const auto bytes = gpu.gpu.memory_total_bytes;
    return bytes == 0 ? std::nullopt : std::optional(bytes);
  });
  write_gpu_gauge(out, nodes, "weir_node_gpu_power_watts", "Power that the GPU draws.",
                  [](const GpuRecord& gpu) { return gpu.sample.power_watts; });
  write_gpu_gauge(out, nodes, "weir_node_gpu_temperature_celsius", "Temperature of the GPU.",
                  [](const GpuRecord& gpu) { return gpu.sample.temperature_celsius; });
  write_gpu_gauge(out, nodes, "weir_node_gpu_ecc_errors", "Uncorrected memory errors since the driver was loaded.",
                  [](const GpuRecord& gpu) { return gpu.sample.ecc_errors; });
  write_gpu_gauge(out, nodes, "weir_node_gpu_xid", "Number of the GPU's last critical error since the node started.",
                  [](const GpuRecord& gpu) { return gpu.sample.xid; });
  out.family("weir_node_gpu_booked_ratio", "gauge", "Share of the GPU that is booked by processes.");
  for (const auto& node : nodes) {
    for (const auto& gpu : node.gpus) {
      const std::string index = std::to_string(gpu.gpu.index);
      out.sample(cluster::booked_of(node, gpu), {{"node", node.name}, {"gpu", index}, {"uuid", gpu.gpu.uuid}});
    }
  }
}

}  // namespace

std::string exposition(const Services& services, const cluster::Health& health,
                       const std::vector<cluster::NodeRecord>& nodes, const cluster::JobTotals& jobs) {
  Writer out;
  out.family("weir_info", "gauge", "1, with the head's version.");
  out.sample(1, {{"version", services.version}});
  const auto started = std::chrono::duration<double>(services.started_at.time_since_epoch()).count();
  out.gauge("weir_start_time_seconds", "When the head started, in Unix time.", started);
  out.gauge("weir_store_writable", "1 if the store takes writes.", health.store_writable ? 1 : 0);
  out.family("weir_jobs", "gauge", "Jobs, by state.");
  for (const auto& [state, count] : jobs.counts) {
    out.sample(static_cast<double>(count), {{"state", cluster::to_string(state)}});
  }
  out.gauge("weir_running_sent_bytes", "Gradient bytes that the running jobs' workers have sent.", jobs.bytes_sent);
  out.gauge("weir_running_dense_bytes", "What dense rings would have sent instead.", jobs.bytes_dense);
  out.gauge("weir_running_samples_per_second", "Samples trained per second by the running jobs.",
            jobs.samples_per_second);
  write_nodes(out, nodes);
  write_gpus(out, nodes);
  write_traffic(out, services.traffic);
  return out.take();
}

void Traffic::add(const std::string& method, std::string_view pattern, unsigned status, double seconds) {
  // The method is chosen by the client: all unknown ones count as one.
  static constexpr std::string_view known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"};
  const bool usual = std::find(std::begin(known), std::end(known), method) != std::end(known);
  const std::lock_guard lock(mutex_);
  auto& row = rows_[{usual ? method : "other", std::string(pattern), status}];
  ++row.requests;
  row.seconds += seconds;
}

Traffic::Rows Traffic::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

}  // namespace weir::api
