#include "cluster/figures.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "base/ensure.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;

constexpr std::size_t name_length_max = 64;
constexpr std::size_t names_max = 256;     // different metrics of one worker
constexpr std::size_t waiting_max = 1024;  // values of one worker and metric that others have not come to

// The summary's samples_per_second is of so many of the newest steps, in so many whole periods. These have as many
// exchanges wherever they begin. In a value of many steps one may count in part, which is little among several.
constexpr std::uint64_t speed_steps_min = 64;
constexpr std::uint64_t speed_periods_min = 4;
constexpr std::size_t speeds_max = 8192;  // more than workers report of four of the longest periods

bool of_whole_job(const std::string& name) { return name == "accuracy" || name == "test_loss"; }

bool is_summed(const std::string& name) { return name == "samples_per_second" || name.starts_with("bytes_"); }

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

Figures::Figures(std::uint32_t world, std::uint32_t members, Past past, std::uint64_t period)
    : past_(std::move(past)),
      wall_seconds_(past_.wall_seconds),
      world_(world),
      ranks_(members),
      speed_steps_(period * std::max(speed_periods_min, (speed_steps_min + period - 1) / period)) {
  ensure(world <= members, "workers are ranks");
  ensure(past_.ranks.empty() || past_.ranks.size() == members, "all attempts of a job have as many processes");
  for (std::size_t rank = 0; rank < past_.ranks.size(); ++rank) ranks_[rank].wire_bytes = past_.ranks[rank].wire_bytes;
}

void Figures::begin_after(double wall_seconds) { past_.wall_seconds = std::max(past_.wall_seconds, wall_seconds); }

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
    worker.last[row.name] = row.value;
    rows.push_back(row);
    if (rank >= world_) continue;
    if (auto whole = add_to_job(row)) complete(*whole, rows);
  }
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

/// Returns the job's value if this worker's was missing for the next one.
std::optional<MetricRow> Figures::add_to_job(const MetricRow& row) {
  Series& series = series_[row.name];
  if (series.waiting.empty()) series.waiting.resize(world_);
  auto& own = series.waiting[*row.worker];
  const auto newest = own.empty() ? series.step : std::optional(own.back().step);
  if (newest && row.step <= *newest) return std::nullopt;
  if (own.size() == waiting_max) own.pop_front();
  own.push_back(row);
  if (std::ranges::any_of(series.waiting, [](const auto& rows) { return rows.empty(); })) return std::nullopt;

  MetricRow whole{row.name, std::nullopt, 0, 0, 0, 0};
  for (const auto& rows : series.waiting) whole.step = std::max(whole.step, rows.front().step);
  for (auto& rows : series.waiting) {
    while (rows.size() > 1 && rows[1].step <= whole.step) rows.pop_front();
    whole.wall_seconds = std::max(whole.wall_seconds, rows.front().wall_seconds);
    whole.wire_bytes += rows.front().wire_bytes;
    whole.value += rows.front().value;
    rows.pop_front();
  }
  if (!is_summed(row.name)) whole.value /= world_;
  series.step = whole.step;
  return whole;
}

void Figures::complete(const MetricRow& row, std::vector<MetricRow>& rows) {
  if (row.name == "compression_ratio") return;  // not the mean of the ratios: see below
  job_last_[row.name] = row.value;
  if (row.name == "samples_per_second" && std::isfinite(row.value) && row.value > 0) {
    add_speed(row.step, row.value);
    job_last_[row.name] = speed();
  }
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

/// A value is of all steps since the one before it. Of the first one of an attempt it is not known where they begin.
void Figures::add_speed(std::uint64_t step, double samples_per_second) {
  const std::uint64_t steps = speeds_.empty() ? 1 : step - speeds_.back().step;
  speeds_.push_back({step, steps, samples_per_second});
  steps_in_speeds_ += steps;
  while (steps_in_speeds_ - speeds_.front().steps >= speed_steps_ || speeds_.size() > speeds_max) {
    steps_in_speeds_ -= speeds_.front().steps;
    speeds_.pop_front();
  }
}

/// Each step of a job has as many samples, so that time is the sum of the steps' times: the harmonic mean of the steps'
/// speeds. Of the oldest value only as many steps count as are wanted.
double Figures::speed() const {
  double steps = 0;
  double seconds = 0;  // if each step had one sample
  for (const Speed& one : std::views::reverse(speeds_)) {
    const double counted = std::min(static_cast<double>(one.steps), static_cast<double>(speed_steps_) - steps);
    steps += counted;
    seconds += counted / one.samples_per_second;
  }
  return steps / seconds;
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
