#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.hpp"
#include "tests/cli/fake_http.hpp"

namespace weir::cli::testing {

/// The catalog that is built into `weir` in these tests.
inline constexpr std::string_view catalog = R"({"models": [{"name": "built-in-model", "summary": "small"}]})";

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome weir(std::vector<std::string> words) {
  words.insert(words.begin(), "weir");
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  Program program(catalog);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = program.run(static_cast<int>(pointers.size()), pointers.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

/// Runs a command against a head that always sends this answer.
inline Outcome weir_at(const std::string& reply, std::vector<std::string> words) {
  FakeHttp head([&](const FakeRequest&) { return reply; });
  words.insert(words.end(), {"--address", head.address(), "--token", "secret"});
  return weir(words);
}

/// A job of two workers, as the API returns it.
inline std::string job(const std::string& state, int step = 0) {
  return nlohmann::json{{"id", "J1"},
                        {"name", "a"},
                        {"state", state},
                        {"phase", ""},
                        {"reason", nullptr},
                        {"step", step},
                        {"steps_total", 10},
                        {"spec", {{"resources", {{"workers", 2}, {"per_worker", {{"cpu", 1}}}}}}},
                        {"summary", {{"accuracy", 0.9}}}}
      .dump();
}

/// Runs the command with a terminal as standard output and returns what the terminal receives. This must be short,
/// because nobody reads while the command runs.
inline std::string weir_on_terminal(std::vector<std::string> words) {
  int terminal = -1;
  int other_end = -1;
  EXPECT_EQ(::openpty(&terminal, &other_end, nullptr, nullptr, nullptr), 0);
  termios raw{};
  EXPECT_EQ(::tcgetattr(other_end, &raw), 0);
  ::cfmakeraw(&raw);
  EXPECT_EQ(::tcsetattr(other_end, TCSANOW, &raw), 0);
  std::cout << std::flush;
  const int usual = ::dup(STDOUT_FILENO);
  ::dup2(other_end, STDOUT_FILENO);
  ::close(other_end);
  words.insert(words.begin(), "weir");
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  Program program(catalog);
  EXPECT_EQ(program.run(static_cast<int>(pointers.size()), pointers.data()), 0);
  std::cout << std::flush;
  ::dup2(usual, STDOUT_FILENO);
  ::close(usual);
  std::string shown;
  char part[4096];
  for (ssize_t got; (got = ::read(terminal, part, sizeof part)) > 0;) shown.append(part, static_cast<std::size_t>(got));
  ::close(terminal);
  return shown;
}

}  // namespace weir::cli::testing
