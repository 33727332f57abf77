#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/fake_logs.hpp"
#include "tests/cli/run_weir.hpp"

namespace weir::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using namespace weir::cli::testing;

/// A head with a job whose processes have printed `logs`. If it is followed, they are `logs_at_end` when it ends.
struct Printing {
  std::map<unsigned, std::string> logs;
  std::map<unsigned, std::string> logs_at_end = logs;
  std::string state = "SUCCEEDED";
  FakeHttp head{[this](const FakeRequest& request) {
    if (request.has("GET /api/v1/stream")) {
      logs = logs_at_end;
      state = "SUCCEEDED";
      return event_stream("event: log\ndata: {\"worker\": 0}\n\nevent: job_end\ndata: " + job(state, 10) + "\n\n");
    }
    if (request.has("/logs?")) return log_answer(request, logs, state == "SUCCEEDED");
    return answer(200, job(state, 10));
  }};

  Outcome read(std::vector<std::string> options) const {
    options.insert(options.begin(), {"--address", head.address(), "job", "logs", "J1"});
    return weir(options);
  }

  /// The text of one process as JSON has it, and where its pieces begin.
  struct Pieces {
    std::string text;
    std::vector<std::size_t> offsets;
  };
  Pieces read_json(std::vector<std::string> options) const {
    options.push_back("--json");
    std::istringstream lines(read(options).out);
    Pieces pieces;
    for (std::string line; std::getline(lines, line);) {
      const auto piece = json::parse(line);
      pieces.text += piece["text"].get<std::string>();
      pieces.offsets.push_back(piece["offset"]);
    }
    return pieces;
  }
};

/// Longer than a piece of a log, whose end is inside a character.
std::string long_text() {
  std::string text;
  while (text.size() < 600'000) text += "\u20ac";
  return text + "\n";
}

TEST(Logs, AreMarkedWithTheirWorker) {
  // The job has two workers and a server, and one worker has printed nothing.
  Printing job{.logs = {{0, "one\ntwoXY"}, {2, "two\n"}}};
  const Outcome outcome = job.read({});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[0] one\n[2] two\n[0] twoXY\n") << "a line without an end waits for one";
}

TEST(Logs, ArePassedOnByteForByte) {
  for (const std::string& log : {std::string("a\xff\xc3(\0b\xe2\x82", 8), long_text(), std::string("\xf0\x9f")}) {
    for (const char* state : {"RUNNING", "SUCCEEDED"}) {
      Printing job{.logs = {{0, log}}, .state = state};
      const Outcome outcome = job.read({"--worker", "0"});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(outcome.out, log) << state;
    }
  }
}

TEST(Logs, AsJsonAreLinesThatAreNotCutInsideACharacter) {
  Printing job{.logs = {{0, "one\ntw"}}};
  const Outcome outcome = job.read({"--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "{\"job\":\"J1\",\"offset\":0,\"text\":\"one\\ntw\",\"worker\":0}\n");
  EXPECT_EQ(job.read({"--json", "--follow"}).out, outcome.out);

  Printing talkative{.logs = {{0, long_text()}}};
  const auto pieces = talkative.read_json({});
  EXPECT_EQ(pieces.text, long_text());
  EXPECT_THAT(pieces.offsets, ElementsAre(0, 262143, 524286));
}

TEST(Logs, ACharacterThatIsNotWholeYetIsWaitedFor) {
  Printing running{.logs = {{0, "caf\xc3"}}, .state = "RUNNING"};
  EXPECT_EQ(running.read_json({}).text, "caf");
  Printing only_that{.logs = {{0, "\xc3"}}, .state = "RUNNING"};
  EXPECT_EQ(only_that.read({"--json"}).out, "");
  Printing ended{.logs = {{0, "caf\xc3"}}};
  EXPECT_EQ(ended.read_json({}).text, "caf\ufffd") << "nothing comes any more";

  for (const std::vector<std::string>& options : {std::vector<std::string>{"-f"}, {"-f", "--worker", "0"}}) {
    Printing half{.logs = {{0, "caf\xc3"}}, .logs_at_end = {{0, "caf\xc3\xa9\n"}}, .state = "RUNNING"};
    const auto pieces = half.read_json(options);
    EXPECT_EQ(pieces.text, "caf\u00e9\n");
    EXPECT_THAT(pieces.offsets, ElementsAre(0, 3));
  }
  Printing half{.logs = {{0, "caf\xc3"}}, .logs_at_end = {{0, "caf\xc3\xa9\n\xff"}}, .state = "RUNNING"};
  EXPECT_EQ(half.read({"-f", "--worker", "0"}).out, "caf\u00e9\n\xff");
}

TEST(Logs, AShortenedLogIsFollowedFromItsBeginning) {
  const std::map<unsigned, std::string> before{{0, "one and more\n"}};
  const std::map<unsigned, std::string> after{{0, "two\n"}};
  Printing one{.logs = before, .logs_at_end = after, .state = "RUNNING"};
  const Outcome of_one = one.read({"--worker", "0", "-f"});
  EXPECT_EQ(of_one.code, 0) << of_one.err;
  EXPECT_EQ(of_one.out, "one and more\ntwo\n");
  Printing all{.logs = before, .logs_at_end = after, .state = "RUNNING"};
  EXPECT_EQ(all.read({"-f"}).out, "[0] one and more\n[0] two\n");
}

}  // namespace
}  // namespace weir::cli
