#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

constexpr double seconds_between_lines = 5;
constexpr double seconds_between_redraws = 0.1;

}  // namespace

int complain(const Error& error) {
  std::cerr << "weir: " << (error.context.empty() ? error.message() : error.context) << std::endl;
  return exit_code(error);
}

void print(const nlohmann::json& document) {
  std::cout << document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

void print(const std::string& text) {
  std::cout << text;
  if (text.empty() || text.back() != '\n') std::cout << '\n';
  std::cout << std::flush;
}

void say(const std::string& line) { std::cerr << line << std::endl; }

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
    std::cerr << line << std::endl;
    return;
  }
  std::cerr << '\r' << one_line(line, columns() - 1) << "\x1b[K" << std::flush;
  shown_ = true;
}

void ProgressLine::say(const std::string& line) {
  finish();
  std::cerr << line << std::endl;
}

void ProgressLine::finish() {
  if (shown_) std::cerr << std::endl;
  shown_ = false;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weir::cli
