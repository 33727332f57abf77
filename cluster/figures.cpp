#include "cluster/figures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::cluster {
namespace {

using nlohmann::json;

constexpr std::size_t name_length_max = 64;
constexpr std::size_t names_max = 256;          // different metrics of one worker
constexpr std::size_t samples_max = 64 * 1024;  // steps that some ranks have reported and others not

bool of_whole_job(const std::string& name) { return name == "accuracy" || name == "test_loss"; }

double join(const std::string& name, const std::vector<std::optional<double>>& values) {
  double sum = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (const auto& value : values) {
    sum += *value;
    most = std::max(most, *value);
  }
  if (name.ends_with("_seconds")) return most;
  if (name == "samples_per_second" || name.starts_with("bytes_")) return sum;
  return sum / static_cast<double>(values.size());
}

/// Byte counts are whole numbers in JSON; what is not finite is null.
json number(const std::string& name, double value) {
  if (!std::isfinite(value)) return nullptr;
  if (name.starts_with("bytes_")) return static_cast<std::uint64_t>(std::max(0.0, value));
  return value;
}

json object_of(const std::map<std::string, double>& values) {
  json result = json::object();
  for (const auto& [name, value] : values) result[name] = number(name, value);
  const auto add_ratio = [&](const std::string& suffix) {
    const auto sent = values.find("bytes_sent" + suffix);
    const auto dense = values.find("bytes_dense" + suffix);
    if (sent == values.end() || dense == values.end() || !(sent->second > 0)) return;
    result["compression_ratio" + suffix] = dense->second / sent->second;
  };
  add_ratio("");
  add_ratio("_after_warmup");
  return result;
}

}  // namespace

std::vector<MetricRow> Figures::add(std::uint32_t rank, std::uint64_t step,
                                    std::span<const protocol::MetricPoint> points) {
  std::vector<MetricRow> rows;
  Worker& worker = workers_.at(rank);
  worker.step = std::max(worker.step, step);
  for (const auto& point : points) {
    if (point.name.empty() || point.name.size() > name_length_max) continue;
    MetricRow row{point.name, std::nullopt, point.step, point.wall_seconds, point.wire_bytes, point.value};
    if (of_whole_job(point.name)) {
      complete(row, rows);
      continue;
    }
    if (worker.last.size() >= names_max && !worker.last.contains(point.name)) continue;
    worker.last[point.name] = point.value;
    row.worker = rank;
    rows.push_back(std::move(row));
    if (auto whole = add_to_sample(rank, point)) complete(*whole, rows);
  }
  return rows;
}

/// The job's value, if this was the last rank that was missing for the step.
std::optional<MetricRow> Figures::add_to_sample(std::uint32_t rank, const protocol::MetricPoint& point) {
  const auto key = std::pair(point.step, point.name);
  Sample& sample = samples_[key];
  if (sample.values.empty()) sample.values.resize(workers_.size());
  if (!sample.values[rank]) ++sample.count;
  sample.values[rank] = point.value;
  sample.wall_seconds = std::max(sample.wall_seconds, point.wall_seconds);
  sample.wire_bytes += point.wire_bytes;
  std::optional<MetricRow> whole;
  if (sample.count == workers_.size()) {
    whole = MetricRow{point.name,          std::nullopt,      point.step,
                      sample.wall_seconds, sample.wire_bytes, join(point.name, sample.values)};
    samples_.erase(key);
  } else if (samples_.size() > samples_max) {
    samples_.erase(samples_.begin());  // a rank leaves this one out
  }
  return whole;
}

void Figures::complete(const MetricRow& row, std::vector<MetricRow>& rows) {
  if (row.name == "compression_ratio") return;  // not the mean of the ratios: see below
  job_last_[row.name] = row.value;
  rows.push_back(row);
  if (row.name == "bytes_dense") dense_ = row;
  if (row.name == "bytes_sent") sent_ = row;
  const bool is_part = row.name == "bytes_dense" || row.name == "bytes_sent";
  if (!is_part || !dense_ || !sent_ || dense_->step != sent_->step || !(sent_->value > 0)) return;
  MetricRow ratio = row;
  ratio.name = "compression_ratio";
  ratio.value = dense_->value / sent_->value;
  rows.push_back(std::move(ratio));
}

std::uint64_t Figures::step() const {
  const auto least = std::min_element(workers_.begin(), workers_.end(),
                                      [](const Worker& a, const Worker& b) { return a.step < b.step; });
  return least == workers_.end() ? 0 : least->step;
}

json Figures::figures_of(std::uint32_t rank) const { return object_of(workers_.at(rank).last); }

json Figures::summary() const {
  json result = object_of(job_last_);
  json workers = json::array();
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].last.empty()) continue;
    json one = figures_of(rank);
    one["rank"] = rank;
    workers.push_back(std::move(one));
  }
  if (!workers.empty()) result["workers"] = std::move(workers);
  return result;
}

}  // namespace weir::cluster
