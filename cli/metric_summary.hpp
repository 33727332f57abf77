#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weir::cli {

/// Sums up every series in a CSV document of a job's metrics, which may be of any length, as its parts arrive.
class MetricSummary {
 public:
  struct Series {
    std::string name;
    std::string worker;  ///< "" for the whole job
    std::uint64_t points = 0;
    double first = 0;
    double least = 0;
    double greatest = 0;
    double last = 0;
  };

  /// Fails with: unsupported (this is no such document).
  Result<void> add(std::string_view part);

  /// In the order of the document.
  const std::vector<Series>& series() const { return series_; }

 private:
  Result<void> add_line(std::string_view line);

  std::string rest_;  ///< a line whose end has not come yet
  bool heading_ = true;
  std::vector<Series> series_;
};

}  // namespace weir::cli
