#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::cli {

/// Everything that is printed goes through here, so that nothing reaches a terminal that it would obey (see printable):
/// text that commands put together for people is cleaned wherever it goes; what is passed on byte for byte, such as a
/// log, only where standard output is a terminal.

/// Whether the command line asked for JSON. Decides how complain() tells of errors.
void set_json(bool json);

/// Says on standard error what went wrong and gives the exit code for it. With --json, standard output gets
/// {"error": {"kind", "message", "exit_code"}} on one line, unless a document that was begun there is now cut short.
int complain(const Error& error);

/// The same for a command line that is not understood, of which standard error has been told.
void complain_of_usage(const std::string& message);

/// Prints JSON on standard output: one document, indented.
void print(const nlohmann::json& document);

/// Prints JSON on standard output as one line: one of several.
void print_line(const nlohmann::json& document);

/// Prints text on standard output, and a line end if it has none.
void print(const std::string& text);

/// Passes a part of a longer text or document on to standard output, byte for byte unless that is a terminal. False if
/// nobody reads there any more.
bool pass_on(std::string_view part);

/// Ends what pass_on() has printed.
void end_passing_on();

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
