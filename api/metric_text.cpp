#include "api/metric_text.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "api/problem.hpp"

namespace weir::api {
namespace {

/// Quotes a field if it has a comma, quote or line break (RFC 4180).
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string result = "\"";
  for (const char c : field) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

/// Writes whole numbers, such as steps and bytes, without an exponent: 100000, not 1e+05; others with the fewest digits
/// that read back to the same value.
void append_number(std::string& text, double value) {
  constexpr double exact_max = 9007199254740992;  // 2^53
  char digits[32];
  const bool whole = std::abs(value) <= exact_max && value == std::trunc(value);
  const auto written = whole ? std::to_chars(digits, digits + sizeof digits, static_cast<std::int64_t>(value))
                             : std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, written.ptr);
}

void append_json_number(std::string& text, double value) {
  if (std::isfinite(value))
    append_number(text, value);
  else
    text += "null";
}

}  // namespace

void MetricText::begin(std::string& text) {
  if (std::exchange(begun_, true)) return;
  if (format_ == MetricFormat::csv)
    text += "job,name,worker,x,min,max,last\r\n";
  else
    text += "{\"job\":" + to_text(job_) + ",\"x\":\"" + std::string(to_string(axis_)) + "\",\"series\":[";
}

void MetricText::begin_series(std::string& text, const std::string& name, std::optional<std::uint32_t> worker) {
  Series series{name, worker};
  if (series_ == series) return;
  if (format_ == MetricFormat::csv) {
    line_head_ = quoted(job_) + "," + quoted(name) + "," + (worker ? std::to_string(*worker) : "");
  } else {
    if (series_) text += "]},";
    text +=
        "{\"name\":" + to_text(name) + ",\"worker\":" + (worker ? std::to_string(*worker) : "null") + ",\"points\":[";
  }
  series_ = std::move(series);
  any_point_ = false;
}

void MetricText::add(std::string& text, const std::string& name, std::optional<std::uint32_t> worker,
                     std::span<const cluster::MetricBucket> points) {
  begin(text);
  begin_series(text, name, worker);
  for (const auto& point : points) {
    const double values[] = {point.x, point.min, point.max, point.last};
    if (format_ == MetricFormat::csv) {
      text += line_head_;
      for (const double value : values) append_number(text += ',', value);
      text += "\r\n";
      continue;
    }
    if (std::exchange(any_point_, true)) text += ',';
    char separator = '[';
    for (const double value : values) append_json_number(text += std::exchange(separator, ','), value);
    text += ']';
  }
}

void MetricText::end(std::string& text) {
  begin(text);
  if (format_ == MetricFormat::json) text += series_ ? "]}]}" : "]}";
}

}  // namespace weir::api
