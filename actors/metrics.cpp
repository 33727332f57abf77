#include "actors/metrics.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weir::actors {

std::uint64_t Metrics::stride_at(std::uint64_t step) {
  return std::bit_floor(std::max<std::uint64_t>(1, step / points_per_doubling));
}

void Metrics::move_on(std::uint64_t step, double seconds, const collectives::Traffic& traffic) {
  const auto now = std::chrono::steady_clock::now();
  if (!start_)
    start_ = now - std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  traffic_ = traffic;
  here_ = {.name = {},
           .step = step,
           .wall_seconds = std::chrono::duration<double>(now - *start_).count(),
           .wire_bytes = traffic.sent_bytes,
           .value = 0};
}

/// Whether there is to be a point at this step. With servers a rank may see some steps more than once and others never.
bool Metrics::is_due(std::uint64_t step) {
  const std::uint64_t stride = stride_at(step);
  const bool due = step / stride > emitted_step_ / stride || (step == options_.steps_total && emitted_step_ < step);
  if (due) emitted_step_ = step;
  return due;
}

/// Whether there was a warm-up that was over before this record.
bool Metrics::is_warm(const training::StepRecord& record) const {
  const auto& [steps, rounds] = options_.warmup;
  const std::uint64_t before = record.step - std::min(record.step, record.steps);
  return steps + rounds > 0 && before >= steps && record.rounds.value_or(before) >= rounds;
}

void Metrics::add(const training::StepRecord& record, const collectives::Traffic& traffic) {
  const std::lock_guard lock(mutex_);
  if (!warm_ && is_warm(record)) warm_ = Warm{traffic_.sent_bytes, dense_bytes_};
  dense_bytes_ += record.dense_bytes;
  move_on(record.step, record.seconds, traffic);

  sum_.loss += record.loss * static_cast<double>(record.steps);
  sum_.samples += record.samples;
  sum_.seconds += record.seconds;
  sum_.compute_seconds += record.compute_seconds;
  sum_.times.encode += record.times.encode;
  sum_.times.exchange += record.times.exchange;
  sum_.times.decode += record.times.decode;
  sum_.times.wait += record.times.wait;
  if (record.local_steps > 0) {
    sum_.local_steps += record.local_steps;
    ++exchanges_in_sum_;
  }
  sum_.share = record.share;
  steps_in_sum_ += record.steps;
  if (is_due(record.step)) emit(std::exchange(sum_, {}));
}

void Metrics::add(const training::ServedRecord& record, const collectives::Traffic& traffic) {
  const std::lock_guard lock(mutex_);
  move_on(record.step, record.wait_seconds, traffic);
  served_.staleness += record.staleness;
  served_.staleness_max = std::max(served_.staleness_max, record.staleness_max);
  served_.applied += record.applied;
  served_.dropped += record.dropped;
  served_.wait_seconds += record.wait_seconds;
  ++steps_in_sum_;
  if (is_due(record.step)) emit(std::exchange(served_, {}));
}

void Metrics::finish() {
  const std::lock_guard lock(mutex_);
  if (steps_in_sum_ == 0) return;
  if (sum_.samples > 0) emit(std::exchange(sum_, {}));
  if (served_.applied + served_.dropped > 0) emit(std::exchange(served_, {}));
}

void Metrics::emit(const training::ServedRecord& sum) {
  const auto steps = static_cast<double>(std::exchange(steps_in_sum_, 0));
  put("staleness", sum.staleness / steps);
  put("staleness_max", static_cast<double>(sum.staleness_max));
  applied_ += sum.applied;
  dropped_ += sum.dropped;
  put("applied_gradients", static_cast<double>(applied_));
  put("dropped_gradients", static_cast<double>(dropped_));
  put("wait_seconds", sum.wait_seconds / steps);
  put("bytes_sent", static_cast<double>(traffic_.sent_bytes));
  put("bytes_received", static_cast<double>(traffic_.received_bytes));
  trim();
}

void Metrics::emit(const training::StepRecord& sum) {
  const auto steps = static_cast<double>(std::exchange(steps_in_sum_, 0));
  put("loss", sum.loss / steps);
  if (sum.seconds > 0) put("samples_per_second", static_cast<double>(sum.samples) / sum.seconds);
  put("step_seconds", sum.seconds / steps);
  put("compute_seconds", sum.compute_seconds / steps);
  put("encode_seconds", sum.times.encode / steps);
  put("exchange_seconds", sum.times.exchange / steps);
  put("decode_seconds", sum.times.decode / steps);
  put("wait_seconds", sum.times.wait / steps);
  const auto exchanges = static_cast<double>(std::exchange(exchanges_in_sum_, 0));
  if (exchanges > 0) put("local_steps", static_cast<double>(sum.local_steps) / exchanges);
  if (sum.share) put("compression_share", *sum.share);
  const auto sent = static_cast<double>(traffic_.sent_bytes);
  put("bytes_sent", sent);
  put("bytes_received", static_cast<double>(traffic_.received_bytes));
  put("bytes_dense", static_cast<double>(dense_bytes_));
  if (sent > 0) put("compression_ratio", static_cast<double>(dense_bytes_) / sent);
  if (warm_) {
    put("bytes_sent_after_warmup", static_cast<double>(traffic_.sent_bytes - warm_->sent_bytes));
    put("bytes_dense_after_warmup", static_cast<double>(dense_bytes_ - warm_->dense_bytes));
  }
  trim();
}

void Metrics::put(const std::string& name, double value) {
  auto point = here_;
  point.name = name;
  point.value = value;
  points_.push_back(std::move(point));
}

void Metrics::trim() {
  if (points_.size() <= points_max) return;
  points_.erase(points_.begin(), points_.end() - static_cast<std::ptrdiff_t>(points_max));
}

void Metrics::add(const std::string& name, const protocol::MetricPoint& at, double value) {
  const std::lock_guard lock(mutex_);
  auto point = at;
  point.name = name;
  point.value = value;
  points_.push_back(std::move(point));
  trim();
}

protocol::MetricPoint Metrics::here() const {
  const std::lock_guard lock(mutex_);
  return here_;
}

std::vector<protocol::MetricPoint> Metrics::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(points_, {});
}

}  // namespace weir::actors
