#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <iostream>

#include "tests/cli/fake_logs.hpp"
#include "tests/cli/run_weir.hpp"

namespace weir::cli {
namespace {

using namespace weir::cli::testing;

/// Runs a command in a process of its own, whose standard output `prepare` changes.
Outcome weir_with(const std::function<void()>& prepare, std::vector<std::string> words) {
  words.insert(words.begin(), "weir");
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  int errors[2];
  EXPECT_EQ(::pipe(errors), 0);
  std::cout << std::flush;
  std::cerr << std::flush;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(errors[1], STDERR_FILENO);
    ::close(errors[0]);
    prepare();
    ::_exit(Program(catalog).run(static_cast<int>(pointers.size()), pointers.data()));
  }
  ::close(errors[1]);
  Outcome outcome;
  char part[4096];
  for (ssize_t got; (got = ::read(errors[0], part, sizeof part)) > 0;) {
    outcome.err.append(part, static_cast<std::size_t>(got));
  }
  ::close(errors[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

void fill_output() { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); }
void close_output() { ::close(STDOUT_FILENO); }
void end_reader() {
  int ends[2];
  if (::pipe(ends) != 0) return;
  ::dup2(ends[1], STDOUT_FILENO);
  ::close(ends[0]);
  ::close(ends[1]);
}

const std::string lost = "weir: standard output is closed or full\n";

TEST(Output, WhatCannotBeWrittenIsAnError) {
  FakeHttp head([](const FakeRequest&) { return answer(200, R"({"jobs": [], "next": null})"); });
  for (const auto& unwritable : {fill_output, close_output}) {
    for (const std::string json : {"--json=true", "--json=false"}) {
      const Outcome listed = weir_with(unwritable, {"--address", head.address(), json, "job", "list"});
      EXPECT_EQ(listed.code, 1);
      EXPECT_EQ(listed.err, lost);
    }
    EXPECT_EQ(weir_with(unwritable, {"--help"}).code, 1);
  }
  EXPECT_EQ(weir_with(close_output, {"job"}).code, 2) << "another error keeps its code";
}

TEST(Output, AReaderThatHasGoneIsNoError) {
  FakeHttp head([](const FakeRequest&) { return answer(200, R"({"jobs": [], "next": null})"); });
  const Outcome listed = weir_with(end_reader, {"--address", head.address(), "job", "list"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_EQ(listed.err, "");
}

/// A head with a job that runs for ever, and has printed something or not.
struct EndlessJob {
  bool quiet = false;
  FakeHttp head{[this](const FakeRequest& request) {
    if (request.has("GET /api/v1/stream")) return event_stream("event: job\ndata: {\"state\": \"RUNNING\"}\n\n");
    if (request.has("/logs?")) return log_answer(request, {{0, quiet ? "" : "one\n"}}, false);
    return answer(200, job("RUNNING", 4));
  }};
};

TEST(Output, ALogIsNotFollowedForNobody) {
  EndlessJob one;
  for (const std::string json : {"--json=true", "--json=false"}) {
    const Outcome gone = weir_with(end_reader, {"--address", one.head.address(), json, "job", "logs", "J1", "-f"});
    EXPECT_EQ(gone.code, 0);
    EXPECT_EQ(gone.err, "");
    const Outcome full = weir_with(fill_output, {"--address", one.head.address(), json, "job", "logs", "J1", "-f"});
    EXPECT_EQ(full.code, 1);
    EXPECT_EQ(full.err, lost);
  }
  one.quiet = true;
  EXPECT_EQ(weir_with(end_reader, {"--address", one.head.address(), "job", "logs", "J1", "-f"}).code, 0);
}

TEST(Output, AFullDiskCutsADownloadShort) {
  FakeHttp head([](const FakeRequest& request) {
    if (request.has("/checkpoints/10 ")) return answer(200, "abc", "application/octet-stream");
    return answer(200, R"({"checkpoints": [{"step": 10, "bytes": 3, "created_at": "T1"}], "next": null})");
  });
  const Outcome full =
      weir_with(fill_output, {"--address", head.address(), "job", "checkpoint", "J1", "10", "-o", "-"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err, lost);
}

}  // namespace
}  // namespace weir::cli
