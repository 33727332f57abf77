#include "cli/format.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/printable.hpp"

namespace weir::cli {
namespace {

std::string printed(const char* form, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array units{"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.95 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  return printed(unit == 0 ? "%.0f " : "%.1f ", bytes) + units.at(unit);
}

std::string seconds_text(double seconds) {
  if (seconds < 0.9995e-3) return printed("%.3g us", seconds * 1e6);
  return seconds < 0.9995 ? printed("%.3g ms", seconds * 1e3) : printed("%.3g s", seconds);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::lround(std::max(seconds, 0.0)));
  std::array<char, 32> text{};
  const unsigned s = static_cast<unsigned>(whole % 60);
  const unsigned m = static_cast<unsigned>(whole / 60 % 60);
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%llu:%02u:%02u", static_cast<unsigned long long>(whole / 3600), m, s);
  } else {
    std::snprintf(text.data(), text.size(), "%u:%02u", m, s);
  }
  return text.data();
}

std::string value_text(const nlohmann::json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return printed("%.6g", value.get<double>());
  return value.dump();
}

std::string one_line(const std::string& text, std::size_t columns) {
  std::string joined = text;
  std::replace_if(
      joined.begin(), joined.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  std::string line;
  for (const char c : printable_line(joined)) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // else it continues a character
    if (begins && columns-- == 0) break;
    line += c;
  }
  return line;
}

const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  static const nlohmann::json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

double number(const nlohmann::json& object, const char* name, double otherwise) {
  const nlohmann::json& value = member(object, name);
  return value.is_number() ? value.get<double>() : otherwise;
}

std::string text(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable_line(cell);
  rows_.push_back(std::move(row));
}

std::string Table::str() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < widths.size() && i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + '\n';
  }
  return out;
}

}  // namespace weir::cli
