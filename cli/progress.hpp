#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace weir::cli {

/// The progress of a running job, from the stream's records, and its text in one line.
class Progress {
 public:
  /// Accepts a job as the API returns it. `now` is in seconds on any steady clock, here and below.
  void take_job(const nlohmann::json& job, double now);

  /// Accepts a `metrics` record:
  /// {"restarts", "points": [[name, worker or null, step, wall_seconds, wire_bytes, value], ...]}.
  void take_metrics(const nlohmann::json& record, double now);

  bool ended() const;
  /// Whether the job has not trained yet, or something keeps it from going on.
  bool waits() const { return !ended() && (step_ == 0 || !reason_.empty()); }
  bool succeeded() const { return state_ == "SUCCEEDED"; }
  const std::string& state() const { return state_; }

  /// "PENDING queued: node a lacks 2 cpu", or
  /// "step 120/468  26%  loss 0.5321  accuracy 85.1%  3210 samples/s  sent 1.2 MB of 340.1 MB dense (283x)  ETA 0:42".
  std::string line(double now) const;

  /// The final line: state, cause, accuracy, traffic.
  std::string verdict() const;

 private:
  void begin_anew(double restarts);
  void advance(double step, double now);
  std::string figures() const;

  std::string state_ = "PENDING";
  std::string phase_;
  std::string reason_;
  double restarts_ = 0;
  double step_ = 0;         ///< of the present attempt
  double step_before_ = 0;  ///< the greatest of those before it
  double steps_total_ = 0;
  nlohmann::json summary_ = nlohmann::json::object();
  std::optional<double> first_seen_step_;
  double first_seen_at_ = 0;
};

}  // namespace weir::cli
