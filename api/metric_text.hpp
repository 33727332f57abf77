#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cluster/records.hpp"

namespace weir::api {

enum class MetricFormat : std::uint8_t { json, csv };

/// Writes the time series of a job as text, part by part, so that nobody has to hold them all. As JSON: one document,
/// {"job", "x", "series": [{"name", "worker", "points": [[x, min, max, last], ...]}]}, in which what is not a finite
/// number is null. As CSV: one line per point, "job,name,worker,x,min,max,last"; the worker of a series of the whole
/// job is empty. Numbers read back to the same value.
class MetricText {
 public:
  MetricText(MetricFormat format, std::string job, cluster::MetricAxis axis)
      : format_(format), job_(std::move(job)), axis_(axis) {}

  /// Appends a part of a series. Parts of the same series follow each other.
  void add(std::string& text, const std::string& name, std::optional<std::uint32_t> worker,
           std::span<const cluster::MetricBucket> points);

  /// Appends what is missing at the end. Nothing is added after it.
  void end(std::string& text);

 private:
  void begin(std::string& text);
  void begin_series(std::string& text, const std::string& name, std::optional<std::uint32_t> worker);

  const MetricFormat format_;
  const std::string job_;
  const cluster::MetricAxis axis_;
  bool begun_ = false;
  bool any_point_ = false;  ///< in the series that is being written
  struct Series {
    std::string name;
    std::optional<std::uint32_t> worker;
    bool operator==(const Series&) const = default;
  };
  std::optional<Series> series_;  ///< that is being written
  std::string line_head_;         ///< of CSV: what all of its lines begin with
};

}  // namespace weir::api
