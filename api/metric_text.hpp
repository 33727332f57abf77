#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cluster/records.hpp"

namespace weir::api {

enum class MetricFormat : std::uint8_t { json, csv };

/// Writes the time series of a job as text, part by part, so that they need not be in memory all at once. As JSON: one
/// document, {"job", "x", "series": [{"name", "worker", "points": [[x, min, max, last], ...]}]}, in which values that
/// are not finite are null. As CSV: one line per point, "job,name,worker,x,min,max,last"; the worker of a series of the
/// whole job is empty. Numbers read back to the same value.
class MetricText {
 public:
  MetricText(MetricFormat format, std::string job, cluster::MetricAxis axis)
      : format_(format), job_(std::move(job)), axis_(axis) {}

  /// Appends a part of a series. The parts of one series must be added one after the other.
  void add(std::string& text, const std::string& name, std::optional<std::uint32_t> worker,
           std::span<const cluster::MetricBucket> points);

  /// Appends the end of the text. No add() may follow.
  void end(std::string& text);

 private:
  void begin(std::string& text);
  void begin_series(std::string& text, const std::string& name, std::optional<std::uint32_t> worker);

  const MetricFormat format_;
  const std::string job_;
  const cluster::MetricAxis axis_;
  bool begun_ = false;
  bool any_point_ = false;  ///< in the series being written
  struct Series {
    std::string name;
    std::optional<std::uint32_t> worker;
    bool operator==(const Series&) const = default;
  };
  std::optional<Series> series_;  ///< the series being written
  std::string line_head_;         ///< for CSV: the beginning of all its lines
};

}  // namespace weir::api
