#include "cluster/figures.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/ensure.hpp"

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

/// Byte counts are whole numbers in JSON; values that are not finite are null.
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

bool Figures::is_count(const std::string& name) { return name.starts_with("bytes_") || name.ends_with("_gradients"); }

Figures::Figures(std::uint32_t world, std::uint32_t members, Past past)
    : past_(std::move(past)), wall_seconds_(past_.wall_seconds), world_(world), ranks_(members) {
  ensure(world <= members, "workers are ranks");
  ensure(past_.ranks.empty() || past_.ranks.size() == members, "all attempts of a job have as many processes");
  for (std::size_t rank = 0; rank < past_.ranks.size(); ++rank) ranks_[rank].wire_bytes = past_.ranks[rank].wire_bytes;
}

std::vector<MetricRow> Figures::add(std::uint32_t rank, std::uint64_t step,
                                    std::span<const protocol::MetricPoint> points) {
  std::vector<MetricRow> rows;
  Rank& worker = ranks_.at(rank);
  worker.step = std::max(worker.step, step);
  for (const auto& point : points) {
    if (point.name.empty() || point.name.size() > name_length_max) continue;
    if (worker.last.size() >= names_max && !worker.last.contains(point.name)) continue;
    MetricRow row = row_of(rank, point);
    worker.wire_bytes = std::max(worker.wire_bytes, row.wire_bytes);
    wall_seconds_ = std::max(wall_seconds_, row.wall_seconds);
    if (of_whole_job(point.name)) {
      row.wire_bytes = bytes_of_job(row);
      row.worker.reset();
      complete(row, rows);
      continue;
    }
    worker.point_step = std::max(worker.point_step, row.step);
    if (rank < world_) {
      if (const auto passed = passed_sample(row.name)) complete(*passed, rows);
    }
    worker.last[row.name] = row.value;
    rows.push_back(row);
    if (rank >= world_) continue;
    if (auto whole = add_to_sample(row)) complete(*whole, rows);
  }
  if (rank < world_) drop_passed_samples();
  return rows;
}

/// The row of a worker's point, with the totals of earlier attempts added.
MetricRow Figures::row_of(std::uint32_t rank, const protocol::MetricPoint& point) const {
  MetricRow row{point.name, rank, point.step, past_.wall_seconds + point.wall_seconds, point.wire_bytes, point.value};
  if (past_.ranks.empty()) return row;
  const Past::Rank& before = past_.ranks[rank];
  row.wire_bytes += before.wire_bytes;
  if (const auto found = before.counts.find(row.name); found != before.counts.end()) row.value += found->second;
  if (row.name == "compression_ratio") {  // the worker reports both before the ratio
    const auto& last = ranks_[rank].last;
    const auto dense = last.find("bytes_dense");
    const auto sent = last.find("bytes_sent");
    if (dense != last.end() && sent != last.end() && sent->second > 0) row.value = dense->second / sent->second;
  }
  return row;
}

/// Estimates how many bytes all workers had sent when the row's worker had sent row.wire_bytes. That moment is past, so
/// the worker's share of all bytes sent by now is used.
std::uint64_t Figures::bytes_of_job(const MetricRow& row) const {
  const std::uint64_t own = ranks_[*row.worker].wire_bytes;
  double all = 0;
  for (const Rank& worker : workers()) all += static_cast<double>(worker.wire_bytes);
  return own == 0 ? 0
                  : static_cast<std::uint64_t>(
                        std::llround(all * static_cast<double>(row.wire_bytes) / static_cast<double>(own)));
}

/// Returns the job's value if this was the last rank missing for the step.
std::optional<MetricRow> Figures::add_to_sample(const MetricRow& row) {
  const auto rank = *row.worker;
  const auto key = std::pair(row.step, row.name);
  Sample& sample = samples_[key];
  if (sample.values.empty()) sample.values.resize(world_);
  if (!sample.values[rank]) ++sample.count;
  sample.values[rank] = row.value;
  sample.wall_seconds = std::max(sample.wall_seconds, row.wall_seconds);
  sample.wire_bytes += row.wire_bytes;
  std::optional<MetricRow> whole;
  if (sample.count == world_) {
    whole = MetricRow{
        row.name, std::nullopt, row.step, sample.wall_seconds, sample.wire_bytes, join(row.name, sample.values)};
    samples_.erase(key);
  } else if (samples_.size() > samples_max) {
    samples_.erase(samples_.begin());  // some rank does not report this step
  }
  return whole;
}

/// The samples below this step are those that no rank adds to any more.
std::uint64_t Figures::step_of_all() const {
  const auto all = workers();
  const auto least = std::ranges::min_element(all, {}, &Rank::point_step);
  return least == all.end() ? 0 : least->point_step;
}

/// The job's value at the newest step that all ranks have passed and some have not reported: workers that count their
/// own steps do not all report the same ones. Those have what they reported last.
std::optional<MetricRow> Figures::passed_sample(const std::string& name) const {
  auto at = samples_.lower_bound({step_of_all(), std::string()});
  while (at != samples_.begin() && std::prev(at)->first.second != name) --at;
  if (at == samples_.begin()) return std::nullopt;
  auto [values, count, wall_seconds, wire_bytes] = std::prev(at)->second;
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    if (values[rank]) continue;
    const auto last = ranks_[rank].last.find(name);
    if (last == ranks_[rank].last.end()) return std::nullopt;
    values[rank] = last->second;
    wire_bytes += ranks_[rank].wire_bytes;
  }
  return MetricRow{name, std::nullopt, std::prev(at)->first.first, wall_seconds, wire_bytes, join(name, values)};
}

void Figures::drop_passed_samples() {
  samples_.erase(samples_.begin(), samples_.lower_bound({step_of_all(), std::string()}));
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
  const auto all = workers();
  const auto least = std::ranges::min_element(all, {}, &Rank::step);
  return least == all.end() ? 0 : least->step;
}

Figures::Past Figures::past() const {
  Past past;
  past.wall_seconds = wall_seconds_;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Past::Rank one = past_.ranks.empty() ? Past::Rank{} : past_.ranks[rank];
    one.wire_bytes = ranks_[rank].wire_bytes;
    for (const auto& [name, value] : ranks_[rank].last) {
      if (is_count(name)) one.counts[name] = value;
    }
    past.ranks.push_back(std::move(one));
  }
  return past;
}

json Figures::figures_of(std::uint32_t rank) const { return object_of(ranks_.at(rank).last); }

json Figures::summary() const { return object_of(job_last_); }

}  // namespace weir::cluster
