#include "cli/metric_summary.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/errc.hpp"

namespace weir::cli {
namespace {

/// Takes the last field from a line.
std::string_view take_last(std::string_view& line) {
  const auto comma = line.rfind(',');
  if (comma == std::string_view::npos) return std::exchange(line, {});
  const auto field = line.substr(comma + 1);
  line = line.substr(0, comma);
  return field;
}

}  // namespace

Result<void> MetricSummary::add(std::string_view part) {
  rest_ += part;
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find("\r\n", begin)) != std::string::npos; begin = end + 2) {
    if (std::exchange(heading_, false)) continue;
    if (auto added = add_line(std::string_view(rest_).substr(begin, end - begin)); !added) return added;
  }
  rest_.erase(0, begin);
  return {};
}

/// A line is job,name,worker,x,min,max,last. From its end, as a name may have commas.
Result<void> MetricSummary::add_line(std::string_view line) {
  std::array<double, 3> values{};  // last, max, min
  for (double& value : values) {
    const auto field = take_last(line);
    const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (failed != std::errc() || end != field.data() + field.size())
      return Error{Errc::unsupported, "the head's metrics cannot be read: \"" + std::string(field) + "\" is no number"};
  }
  const auto [last, greatest, least] = values;
  take_last(line);  // x
  const auto worker = take_last(line);
  const auto comma = line.find(',');
  const auto name = comma == std::string_view::npos ? std::string_view() : line.substr(comma + 1);
  if (series_.empty() || series_.back().name != name || series_.back().worker != worker)
    series_.push_back({std::string(name), std::string(worker), 0, last, least, greatest, last});
  Series& series = series_.back();
  ++series.points;
  series.least = std::fmin(series.least, least);
  series.greatest = std::fmax(series.greatest, greatest);
  series.last = last;
  return {};
}

}  // namespace weir::cli
