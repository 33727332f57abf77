#include "api/csv.hpp"

#include <charconv>

namespace weir::api {
namespace {

/// A field with a comma, quote or line break in it is quoted (RFC 4180).
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string result = "\"";
  for (const char c : field) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

void append_number(std::string& line, double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  line += ',';
  line.append(text, end);
}

}  // namespace

std::string metrics_csv(const std::string& job, const std::vector<cluster::MetricSeries>& series) {
  std::string csv = "job,name,worker,x,min,max,last\r\n";
  for (const auto& s : series) {
    const std::string head = quoted(job) + "," + quoted(s.name) + "," + (s.worker ? std::to_string(*s.worker) : "");
    for (const auto& point : s.points) {
      csv += head;
      for (const double value : {point.x, point.min, point.max, point.last}) append_number(csv, value);
      csv += "\r\n";
    }
  }
  return csv;
}

}  // namespace weir::api
