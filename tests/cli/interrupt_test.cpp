#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run_weir.hpp"

namespace weir::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace weir::cli::testing;
namespace fs = std::filesystem;

/// A directory of its own for each test, with a job spec beside it.
class Interrupt : public ::testing::Test {
 protected:
  Interrupt() : dir_(fs::path(::testing::TempDir()) / ("weir-interrupt-" + std::to_string(::getpid()))) {
    fs::remove_all(dir_);
    fs::create_directories(dir_ / "empty");
    std::ofstream(dir_ / "spec.json") << R"({"model": {"name": "lenet"}})";
  }
  ~Interrupt() override { fs::remove_all(dir_); }

  const fs::path dir_;
};

/// A head that takes a request, sends `begun`, and interrupts this process; more does not come.
class Interrupting {
 public:
  explicit Interrupting(std::string begun) : begun_(std::move(begun)) {}
  std::string address() const { return "127.0.0.1:" + server_.port(); }

 private:
  bool serve(LoopbackServer::Socket& socket) {
    boost::system::error_code code;
    boost::asio::streambuf buffer;
    boost::asio::read_until(socket, buffer, "\r\n\r\n", code);
    if (code) return false;
    boost::asio::write(socket, boost::asio::buffer(begun_), code);
    ::kill(::getpid(), SIGINT);
    return true;
  }

  const std::string begun_;
  LoopbackServer server_{[this](LoopbackServer::Socket& socket) { return serve(socket); }};  // last: it uses the rest
};

void expect_interrupted(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const auto told = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(told.is_object()) << outcome.out;
  EXPECT_EQ(told["error"]["kind"], "interrupted");
  EXPECT_EQ(told["error"]["exit_code"], 130);
}

TEST_F(Interrupt, ADownloadLeavesNothing) {
  const Interrupting head("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"traceEvents\": [");
  const fs::path file = dir_ / "empty" / "trace.json";
  expect_interrupted(weir({"--json", "--address", head.address(), "job", "trace", "J1", "-o", file}));
  EXPECT_TRUE(fs::is_empty(file.parent_path()));
}

TEST_F(Interrupt, ARequestIsTold) {
  const Interrupting head("");
  expect_interrupted(weir({"--json", "--address", head.address(), "job", "list"}));
  expect_interrupted(weir({"--json", "--address", head.address(), "doctor"}));
}

TEST_F(Interrupt, ASubmissionThatMayHaveArrivedIsToldWithItsKey) {
  const Interrupting head("");
  const Outcome outcome = weir({"--json", "--address", head.address(), "submit", dir_ / "spec.json"});
  expect_interrupted(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("It may have received the job. The same command with --idempotency-key "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("asking again")));
}

}  // namespace
}  // namespace weir::cli
