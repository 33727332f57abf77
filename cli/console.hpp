#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::cli {

/// Everything that is printed goes through here, so that no control sequences reach a terminal (see printable): text
/// that commands compose for people is always cleaned; what is passed on byte for byte, such as a log, only if standard
/// output is a terminal.

/// Sets whether the command line asked for JSON, which decides how complain() reports errors.
void set_json(bool json);

/// Reports an error on standard error and returns its exit code. With --json, standard output gets {"error": {"kind",
/// "message", "exit_code"}} on one line, unless a document that was begun there is now cut short.
int complain(const Error& error);

/// The same for a command that has submitted the job `id`: the document has it as "id".
int complain_of_job(const Error& error, const std::string& id);

/// The same for a command line that is not understood, which has already been reported on standard error.
void complain_of_usage(const std::string& message);

/// Keeps a standard output that is closed from being reused: the next socket would get its number, and what is printed.
void hold_output();

/// Flushes standard output. Returns false if it has not taken everything; a reader that has gone wanted no more.
bool output_is_whole();

/// Whether there is still somebody, or something, to take standard output: a reader of a pipe may have gone.
bool output_is_open();

/// That standard output takes no more.
Error unwritable();

/// Prints JSON on standard output: one document, indented.
void print(const nlohmann::json& document);

/// Prints JSON on standard output as one line, for output of several documents.
void print_line(const nlohmann::json& document);

/// Prints text on standard output, and a line end if it has none.
void print(const std::string& text);

/// Passes a part of a longer text or document on to standard output, byte for byte unless that is a terminal. Returns
/// false if standard output is closed.
bool pass_on(std::string_view part);

/// Ends the text that pass_on() has printed. Returns false if standard output has not taken all of it.
bool end_passing_on();

/// Prints a line for people on standard error.
void say(const std::string& line);

/// A line on standard error that shows progress: rewritten in place on a terminal, else a new line at most every few
/// seconds.
class ProgressLine {
 public:
  ProgressLine();
  /// `now` in seconds on a steady clock.
  void show(const std::string& line, double now);
  /// Prints a lasting line between the others.
  void say(const std::string& line);
  /// Ends the line on a terminal, so that others can follow.
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
