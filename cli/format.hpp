#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weir::cli {

/// "312 B", "4.1 kB", "12.3 MB": powers of 1000, as for network links.
std::string bytes_text(double bytes);

/// "50 us", "12.5 ms", "1.25 s": for what is measured.
std::string seconds_text(double seconds);

/// "0:42", "12:05", "3:07:00".
std::string duration_text(double seconds);

/// A JSON value as text for people: strings without quotes, numbers short, null as "-".
std::string value_text(const nlohmann::json& value);

/// `object[name]`, or null where there is no such member.
const nlohmann::json& member(const nlohmann::json& object, const char* name);

/// The number in `object[name]`, or `otherwise`.
double number(const nlohmann::json& object, const char* name, double otherwise = 0);

/// The text in `object[name]`, or "".
std::string text(const nlohmann::json& object, const char* name);

/// The text as one printable line of at most `columns` characters: UTF-8 is not cut inside a character, line ends and
/// tabs become spaces.
std::string one_line(const std::string& text, std::size_t columns);

/// Rows in aligned columns with a heading, two spaces between them. Cells are made printable.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}
  void add(std::vector<std::string> row);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace weir::cli
