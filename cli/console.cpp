#include "cli/console.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "base/errc.hpp"
#include "base/printable.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

constexpr double seconds_between_lines = 5;
constexpr double seconds_between_redraws = 0.1;

// A process has one standard output, so this is global.
bool errors_as_json = false;
bool passing_on = false;  ///< a text begun by pass_on() has not ended

std::string text_of(const nlohmann::json& document, int indent) {
  return printable_json(document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// The name of an exit code, for scripts.
const char* kind_of(int code) {
  switch (code) {
    case ExitCode::usage: return "usage";
    case ExitCode::not_found: return "not_found";
    case ExitCode::no_access: return "no_access";
    case ExitCode::unreachable: return "unreachable";
    case ExitCode::timeout: return "timeout";
    case ExitCode::interrupted: return "interrupted";
    default: return "failed";
  }
}

void print_error(const char* kind, const std::string& message, int code, const std::string& job = "") {
  if (!errors_as_json || passing_on) return;
  nlohmann::json document{{"error", {{"kind", kind}, {"message", message}, {"exit_code", code}}}};
  if (!job.empty()) document["id"] = job;
  print_line(document);
}

}  // namespace

void set_json(bool json) {
  errors_as_json = json;
  passing_on = false;
}

int complain(const Error& error) { return complain_of_job(error, ""); }

int complain_of_job(const Error& error, const std::string& id) {
  const std::string message = error.context.empty() ? error.message() : error.context;
  const int code = exit_code(error);
  print_error(kind_of(code), message, code, id);
  say("weir: " + message);
  return code;
}

void complain_of_usage(const std::string& message) { print_error(kind_of(ExitCode::usage), message, ExitCode::usage); }

void hold_output() {
  if (::fcntl(STDOUT_FILENO, F_GETFD) >= 0) return;
  const int unwritable = ::open("/dev/null", O_RDONLY);
  if (unwritable < 0 || unwritable == STDOUT_FILENO) return;
  ::dup2(unwritable, STDOUT_FILENO);
  ::close(unwritable);
}

bool output_is_whole() {
  if (std::cout.flush()) return true;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

bool output_is_open() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return std::cout.good() && ::poll(&output, 1, 0) == 0;
}

Error unwritable() { return {Errc::io, "standard output is closed or full"}; }

void print(const nlohmann::json& document) { std::cout << text_of(document, 2) << std::endl; }

void print_line(const nlohmann::json& document) { std::cout << text_of(document, -1) << std::endl; }

void print(const std::string& text) {
  std::cout << printable(text);
  if (text.empty() || text.back() != '\n') std::cout << '\n';
  std::cout << std::flush;
}

bool pass_on(std::string_view part) {
  passing_on = true;
  if (::isatty(STDOUT_FILENO) == 1) {
    std::cout << printable(part);
  } else {
    std::cout << part;
  }
  return std::cout.good();
}

bool end_passing_on() {
  std::cout << std::flush;
  passing_on = false;
  return std::cout.good();
}

void say(const std::string& line) { std::cerr << printable(line) << std::endl; }

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

std::size_t ProgressLine::columns() const {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void ProgressLine::show(const std::string& line, double now) {
  if (line == last_ || now - last_at_ < (terminal_ ? seconds_between_redraws : seconds_between_lines)) return;
  last_ = line;
  last_at_ = now;
  if (!terminal_) {
    cli::say(line);
    return;
  }
  std::cerr << '\r' << one_line(line, columns() - 1) << "\x1b[K" << std::flush;
  shown_ = true;
}

void ProgressLine::say(const std::string& line) {
  finish();
  cli::say(line);
}

void ProgressLine::finish() {
  if (shown_) std::cerr << std::endl;
  shown_ = false;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weir::cli
