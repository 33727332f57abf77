#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"

namespace weir::cli {

/// Says on standard error what went wrong and gives the exit code for it.
int complain(const Error& error);

/// Prints JSON on standard output: one document, indented.
void print(const nlohmann::json& document);

/// Prints text on standard output, and a line end if it has none.
void print(const std::string& text);

/// A line for people, on standard error.
void say(const std::string& line);

/// The line that shows how far something is, on standard error: rewritten in place on a terminal, else a new line at
/// most every few seconds.
class ProgressLine {
 public:
  ProgressLine();
  /// `now` in seconds on a steady clock.
  void show(const std::string& line, double now);
  /// A lasting line between the others.
  void say(const std::string& line);
  /// Ends the line in place, so that others can follow.
  void finish();

 private:
  std::size_t columns() const;

  bool terminal_;
  bool shown_ = false;
  double last_at_ = -1e9;
  std::string last_;
};

/// Seconds on a steady clock.
double steady_seconds();

}  // namespace weir::cli
