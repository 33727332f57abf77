#include "cli/progress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/format.hpp"

namespace weir::cli {
namespace {

/// Shorter than this, the steps say little about how long those that are left take.
constexpr double watched_min_seconds = 3;

std::string printed(const char* form, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

}  // namespace

void Progress::take_job(const nlohmann::json& job, double now) {
  if (auto state = text(job, "state"); !state.empty()) state_ = state;
  phase_ = text(job, "phase");
  reason_ = text(job, "reason");
  steps_total_ = number(job, "steps_total");
  if (const auto& summary = member(job, "summary"); summary.is_object()) summary_.update(summary);
  const double step = number(job, "step");
  if (const double restarts = number(job, "restarts"); restarts > restarts_) {
    begin_anew(restarts);
    step_before_ = std::max(step_before_, step);
  }
  // Until all workers of a new attempt have reported, a job's step is where the attempt before has left it: a step says
  // something of the present one once it is greater. The steps that are repeated before come with the metrics.
  if (ended() || step > step_before_) advance(step, now);
}

void Progress::take_metrics(const nlohmann::json& record, double now) {
  const double restarts = number(record, "restarts", restarts_);
  if (restarts < restarts_) return;  // of an attempt that is over
  if (restarts > restarts_) begin_anew(restarts);
  for (const nlohmann::json& point : member(record, "points")) {
    if (!point.is_array() || point.size() < 6 || !point[0].is_string() || !point[2].is_number()) continue;
    if (!point[1].is_null()) continue;  // a point of a single worker
    summary_[point[0].get<std::string>()] = point[5];
    advance(point[2].get<double>(), now);
  }
}

void Progress::begin_anew(double restarts) {
  restarts_ = restarts;
  step_before_ = std::max(step_before_, step_);
  step_ = 0;
  first_seen_step_.reset();
}

void Progress::advance(double step, double now) {
  step_ = std::max(step_, step);
  // The rate is computed from the steps seen here: the job may have paused before.
  if (!first_seen_step_ && step_ > 0) {
    first_seen_step_ = step_;
    first_seen_at_ = now;
  }
}

bool Progress::ended() const { return state_ == "SUCCEEDED" || state_ == "FAILED" || state_ == "STOPPED"; }

std::string Progress::figures() const {
  std::string line;
  if (member(summary_, "loss").is_number()) line += "  loss " + printed("%.4g", number(summary_, "loss"));
  if (member(summary_, "accuracy").is_number()) {
    line += "  accuracy " + printed("%.1f%%", 100 * number(summary_, "accuracy"));
  }
  if (!ended() && member(summary_, "samples_per_second").is_number()) {
    const double rate = number(summary_, "samples_per_second");
    line += "  " + printed(rate < 100 ? "%.3g samples/s" : "%.0f samples/s", rate);
  }
  const double sent = number(summary_, "bytes_sent");
  const double dense = number(summary_, "bytes_dense");
  if (sent > 0) line += "  sent " + bytes_text(sent);
  if (sent > 0 && dense > 0) {
    const double ratio = dense / sent;
    line += " of " + bytes_text(dense) + " dense (" + printed(ratio < 10 ? "%.2fx)" : "%.0fx)", ratio);
  }
  return line;
}

std::string Progress::line(double now) const {
  if (step_ == 0) {
    std::string line = state_;
    if (!phase_.empty()) line += " " + phase_;
    if (!reason_.empty()) line += ": " + reason_;
    return line;
  }
  std::string line = "step " + printed("%.0f", step_);
  if (steps_total_ > 0) {
    line += "/" + printed("%.0f", steps_total_) + "  " + printed("%.0f%%", 100 * std::min(1.0, step_ / steps_total_));
  }
  // The figures that a narrow terminal should show come first.
  const double watched = step_ - first_seen_step_.value_or(step_);
  if (watched > 0 && now >= first_seen_at_ + watched_min_seconds && steps_total_ > step_) {
    line += "  ETA " + duration_text((steps_total_ - step_) * (now - first_seen_at_) / watched);
  }
  if (phase_ != "training" && !phase_.empty()) line += "  " + phase_ + (reason_.empty() ? "" : ": " + reason_);
  return line + figures();
}

std::string Progress::verdict() const {
  std::string line = state_;
  if (!reason_.empty()) line += ": " + reason_;
  if (step_ > 0) line += "\n  " + printed("%.0f steps", step_) + figures();
  return line;
}

}  // namespace weir::cli
