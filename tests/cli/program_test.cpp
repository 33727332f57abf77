#include "cli/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "cli/exit_code.hpp"
#include "cli/http_client.hpp"
#include "tests/cli/fake_http.hpp"
#include "tests/cli/run_weir.hpp"

namespace weir::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace weir::cli::testing;

class Spec : public ::testing::Test {
 protected:
  Spec() : path_(::testing::TempDir() + "spec-" + std::to_string(::getpid()) + ".json") {
    std::ofstream(path_) << R"({"model": {"name": "lenet"}, "training": {"epochs": 2}})";
  }
  ~Spec() override { std::remove(path_.c_str()); }
  const std::string path_;
};

TEST(Program, ExitCodesFollowTheAnswer) {
  const std::string none = R"({"jobs": [], "next": null})";
  EXPECT_EQ(weir_at(answer(200, none), {"job", "list"}).code, 0);
  EXPECT_EQ(weir_at(answer(404, R"({"title": "Not Found"})"), {"job", "show", "x"}).code, 3);
  EXPECT_EQ(weir_at(answer(401, "{}"), {"job", "list"}).code, 4);
  EXPECT_EQ(weir_at(answer(403, "{}"), {"job", "list"}).code, 4);
  EXPECT_EQ(weir_at(answer(409, "{}"), {"job", "delete", "x"}).code, 1);
  EXPECT_EQ(weir_at(answer(500, "{}"), {"job", "list"}).code, 1);
  EXPECT_EQ(weir_at(answer(200, "<html>"), {"job", "list"}).code, 1);
}

TEST(Program, BadCommandLinesAreUsageErrors) {
  EXPECT_EQ(weir({}).code, 2);
  EXPECT_EQ(weir({"jub"}).code, 2);
  EXPECT_EQ(weir({"job"}).code, 2);
  EXPECT_EQ(weir({"job", "show"}).code, 2);
  EXPECT_EQ(weir({"job", "list", "--state", "SLEEPING"}).code, 2);
  EXPECT_EQ(weir({"job", "list", "--colour"}).code, 2);
  EXPECT_EQ(weir({"submit", "/no/such/file.json"}).code, 2);
  EXPECT_EQ(weir({"bench", "exchange", "--filter", "("}).code, 2);
  EXPECT_EQ(weir({"node"}).code, 2);
  EXPECT_EQ(weir({"node", "--head", "127.0.0.1:1", "--resources", "cpu=many"}).code, 2);
  EXPECT_EQ(weir({"--help"}).code, 0);
  EXPECT_EQ(weir({"--version"}).code, 0);
}

TEST(Program, AnUnknownCommandIsNamedWithTheOneThatWasMeant) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"job", "lst"}, {"--address", "x:1", "job", "lst", "--limit", "3"}, {"--json", "job", "lst", "--help"}}) {
    const Outcome outcome = weir(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("there is no command \"lst\"; did you mean \"list\"?\n"));
  }
  EXPECT_THAT(weir({"--json", "jub"}).out, HasSubstr(R"(there is no command \"jub\"; did you mean \"job\"?)"));
  EXPECT_THAT(weir({"node", "lst"}).err, HasSubstr("did you mean \"list\"?"));
  EXPECT_THAT(weir({"actor", "frobnicate"}).err, HasSubstr("there is no command \"frobnicate\"; there are list, show"));
  EXPECT_EQ(weir({"nosuch", "--help"}).code, 2);
  EXPECT_EQ(weir({"job", "--help"}).code, 0);
}

// The words are CLI11's: those of later versions are "not in range [1 - 1000000]".
TEST(Program, ABadNumberIsToldInAFewWords) {
  const auto said = [](const char* value, const char* least, const char* most) {
    return ::testing::ContainsRegex(std::string("Value ") + value + " not in range .?" + least + " (to|-) " + most +
                                    ".?\n");
  };
  EXPECT_THAT(weir({"job", "list", "--limit", "0"}).err, said("0", "1", "1000000"));
  EXPECT_THAT(weir({"actor", "list", "--limit", "-1"}).err, said("-1", "1", "1000000"));
  const Outcome worker = weir({"job", "logs", "J1", "--worker", "x"});
  EXPECT_EQ(worker.code, 2);
  EXPECT_THAT(worker.err, said("x", "0", "65535"));
}

TEST_F(Spec, WhatIsNoSpecIsNamed) {
  const Outcome folder = weir({"submit", ::testing::TempDir()});
  EXPECT_EQ(folder.code, 2);
  EXPECT_EQ(folder.err, "weir: " + ::testing::TempDir() + " is a folder; give a job spec in it\n");
  std::ofstream(path_, std::ios::trunc) << "\n";
  const Outcome empty = weir({"submit", path_});
  EXPECT_EQ(empty.code, 2);
  EXPECT_EQ(empty.err, "weir: " + path_ + " is empty; a job spec is a JSON object\n");
  std::ofstream(path_, std::ios::trunc) << "{";
  EXPECT_THAT(weir({"submit", path_}).err, AllOf(HasSubstr("is not JSON: "), Not(HasSubstr("exception"))));
  std::ofstream(path_, std::ios::trunc) << R"({"name": "a", "name": "b"})";
  EXPECT_THAT(weir({"submit", path_}).err, HasSubstr("has the key \"name\" twice"));
  std::ofstream(path_, std::ios::trunc) << "[]";
  const Outcome list = weir({"submit", path_, "--resume", "J0"});
  EXPECT_EQ(list.code, 2);
  EXPECT_THAT(list.err, HasSubstr("is no JSON object"));
}

TEST_F(Spec, WhatIsNoTextIsRefusedBeforeTheHeadIsAsked) {
  FakeHttp head([](const FakeRequest&) { return answer(201, job("PENDING")); });
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--set", "name=\xff"}, {"--set", "name=\xff", "--dry-run"}, {"--resume", "J\xff"}}) {
    std::vector<std::string> command{"--json", "--address", head.address(), "submit", path_};
    command.insert(command.end(), words.begin(), words.end());
    const Outcome outcome = weir(command);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("not UTF-8"));
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["kind"], "usage");
  }
  EXPECT_TRUE(head.requests().empty());
}

TEST_F(Spec, AnEmptyNameIsNotOneThatWasLeftOut) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"submit", path_, "--resume", ""},
                                                                 {"job", "show", ""},
                                                                 {"job", "delete", ""},
                                                                 {"job", "logs", ""},
                                                                 {"job", "traffic", ""},
                                                                 {"job", "checkpoints", ""},
                                                                 {"node", "show", ""},
                                                                 {"node", "forget", ""},
                                                                 {"actor", "show", ""},
                                                                 {"session", "revoke", ""}}) {
    const Outcome outcome = weir(words);
    EXPECT_EQ(outcome.code, 2) << words[0] << " " << words[1];
    EXPECT_THAT(outcome.err, HasSubstr("must not be empty"));
  }
}

TEST(Program, ANodeOffersANumberOfCores) {
  for (const std::string cores : {"0", "-3", "nan", "inf", "x"}) {
    EXPECT_EQ(weir({"up", "--cpus-per-node", cores}).code, 2) << cores;
  }
}

TEST(Program, HelpSaysWhatHappens) {
  EXPECT_THAT(weir({"job", "stop", "--help"}).out, HasSubstr("if it trains, a checkpoint is taken"));
  EXPECT_THAT(weir({"submit", "--help"}).out, HasSubstr("bytes per exchange"));
}

TEST(Program, UpTakesWhatTheHeadItStartsMayAskFor) {
  const Outcome help = weir({"up", "--help"});
  for (const char* option : {"--insecure", "--allow-host", "--public-url"}) EXPECT_THAT(help.out, HasSubstr(option));
}

TEST(Program, NoHeadIsCalledUnreachableAndToldWhatToDo) {
  boost::asio::io_context io;
  // Bound but not listening: the port is nobody else's, and connections to it are refused.
  const boost::asio::ip::tcp::socket silent(io, {boost::asio::ip::address_v4::loopback(), 0});
  const std::string address = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  const Outcome outcome = weir({"job", "list", "--address", address});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.err, HasSubstr(address));
  EXPECT_THAT(outcome.err, HasSubstr("weir up"));
  EXPECT_EQ(outcome.out, "");
}

TEST(Program, AHeadThatDoesNotAnswerIsATimeout) {
  FakeHttp head([](const FakeRequest&) { return ""; });
  const HttpClient client(head.address(), "");
  auto reply = client.request({.deadline = std::chrono::seconds(1)});
  // Connecting has the same limit, which a busy machine may come to.
  for (int again = 0; again < 100 && !reply && reply.error().code == Errc::peer_lost; ++again) {
    reply = client.request({.deadline = std::chrono::seconds(1)});
  }
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::deadline_exceeded);
  EXPECT_EQ(exit_code(reply.error()), 6);
}

/// An address that takes no more connections: its queue is full.
class FullPort {
 public:
  FullPort() : acceptor_(io_) {
    acceptor_.open(boost::asio::ip::tcp::v4());
    acceptor_.bind({boost::asio::ip::address_v4::loopback(), 0});
    acceptor_.listen(0);
    // The queue holds one more than it was asked for; the second of these may already be waiting in vain.
    for (auto& socket : waiting_) {
      socket.open(boost::asio::ip::tcp::v4());
      socket.non_blocking(true);
      const auto endpoint = acceptor_.local_endpoint();
      ::connect(socket.native_handle(), endpoint.data(), static_cast<socklen_t>(endpoint.size()));  // not waited for
    }
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::array<boost::asio::ip::tcp::socket, 2> waiting_{boost::asio::ip::tcp::socket(io_),
                                                       boost::asio::ip::tcp::socket(io_)};
};

TEST(Program, AConnectionThatNobodyTakesIsUnreachable) {
  const FullPort port;
  const HttpClient client(port.address(), "");
  const auto reply = client.request({.deadline = std::chrono::milliseconds(200)});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::peer_lost);
  EXPECT_EQ(exit_code(reply.error()), 5);
  EXPECT_THAT(reply.error().context, HasSubstr("weir up"));
}

TEST(Program, SendsTheToken) {
  FakeHttp head([](const FakeRequest&) { return answer(200, R"({"jobs": [], "next": null})"); });
  weir({"--address", "http://" + head.address() + "/", "--token", "secret", "job", "list"});
  ASSERT_EQ(head.requests().size(), 1U);
  EXPECT_TRUE(head.requests()[0].has("Authorization: Bearer secret\r\n"));
}

TEST(Program, JsonGoesToStandardOutputAlone) {
  const Outcome outcome = weir_at(answer(200, R"({"jobs": [], "next": null})"), {"job", "list", "--json"});
  EXPECT_EQ(nlohmann::json::parse(outcome.out), nlohmann::json::parse(R"({"jobs": [], "next": null})"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Spec, AProblemIsToldWithPlaceAndSuggestion) {
  const nlohmann::json fault{{"pointer", "/model/name"}, {"detail", "no such model"}, {"suggestion", "lenet"}};
  const nlohmann::json problem{
      {"title", "Invalid"}, {"detail", "the job spec is not valid"}, {"errors", nlohmann::json::array({fault})}};
  const Outcome outcome = weir_at(answer(422, problem.dump(), "application/problem+json"), {"submit", path_});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("the job spec is not valid\n  /model/name: no such model (did you mean \"lenet\"?)"));
}

TEST_F(Spec, SubmitPrintsTheIdAndSendsTypedChanges) {
  FakeHttp head([](const FakeRequest&) { return answer(201, job("PENDING")); });
  const Outcome outcome = weir({"--address", head.address(), "submit", path_, "--set", "training.epochs=3", "--set",
                                "name=abc", "--resume", "J0:40"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "J1\n");
  const auto sent = nlohmann::json::parse(head.requests().at(0).body);
  EXPECT_EQ(sent["training"]["epochs"], 3);
  EXPECT_EQ(sent["name"], "abc");
  EXPECT_EQ(sent["checkpoint"]["resume_from"], (nlohmann::json{{"job", "J0"}, {"step", 40}}));
  EXPECT_EQ(head.requests()[0].line(), "POST /api/v1/jobs");
}

std::string idempotency_key(const FakeRequest& request) {
  const auto at = request.head.find("Idempotency-Key: ");
  return at == std::string::npos ? "" : request.head.substr(at + 17, request.head.find("\r\n", at) - at - 17);
}

TEST_F(Spec, SubmitAsksAgainByTheSameKeyWhereTheAnswerIsLost) {
  int calls = 0;
  FakeHttp head([&](const FakeRequest&) {
    return ++calls == 1 ? "HTTP/1.1 201 X\r\nContent-Length: 500\r\n\r\n{\"id\": \"J" : answer(201, job("PENDING"));
  });
  const Outcome outcome = weir({"--address", head.address(), "submit", path_});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "J1\n");
  EXPECT_THAT(outcome.err, HasSubstr("asking again"));
  ASSERT_EQ(head.requests().size(), 2U);
  EXPECT_THAT(idempotency_key(head.requests()[0]), ::testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(idempotency_key(head.requests()[0]).size(), 32U);
  EXPECT_EQ(idempotency_key(head.requests()[1]), idempotency_key(head.requests()[0]));
  EXPECT_EQ(head.requests()[1].body, head.requests()[0].body);

  EXPECT_EQ(weir({"--address", head.address(), "submit", path_}).code, 0);
  EXPECT_NE(idempotency_key(head.requests().at(2)), idempotency_key(head.requests()[0])) << "another command";
  EXPECT_EQ(weir({"--address", head.address(), "submit", path_, "--idempotency-key", "mine"}).code, 0);
  EXPECT_EQ(idempotency_key(head.requests().at(3)), "mine");
  EXPECT_EQ(weir({"--address", head.address(), "submit", path_, "--idempotency-key", "a b"}).code, 2);
}

TEST_F(Spec, SubmitAsksNoMoreThanTwiceAndSaysHowToGoOn) {
  FakeHttp head([&](const FakeRequest&) { return "HTTP/1.1 201 X\r\nContent-Length: 500\r\n\r\n{"; });
  const Outcome outcome = weir({"--address", head.address(), "submit", path_});
  EXPECT_EQ(outcome.code, 5);
  ASSERT_EQ(head.requests().size(), 2U);
  EXPECT_THAT(outcome.err, HasSubstr("--idempotency-key " + idempotency_key(head.requests()[0])));
}

TEST_F(Spec, DryRunOnlyValidates) {
  FakeHttp head([](const FakeRequest&) {
    return answer(200, R"({"valid": true, "spec": {"name": "x"}, "round_bytes": {"sent_per_worker": 1200,
      "dense_per_worker": 360000}, "placement": {"feasible": false, "reason": "node a lacks 2 cpu", "workers": []},
      "warnings": [{"pointer": "/compression/params/ratio", "detail": "each entry is sent 0.2 times"}]})");
  });
  const Outcome outcome = weir({"--address", head.address(), "submit", path_, "--dry-run"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("node a lacks 2 cpu"));
  EXPECT_THAT(outcome.err, HasSubstr("Each worker sends about 1.2 kB in each exchange"));
  EXPECT_THAT(outcome.err, HasSubstr("warning: /compression/params/ratio: each entry is sent 0.2 times\n"));
  EXPECT_EQ(head.requests().at(0).line(), "POST /api/v1/jobs/validate");
}

TEST_F(Spec, SubmitSaysWarningsToPeopleAndTheIdToPrograms) {
  const auto job = R"({"id": "J1", "warnings": [{"pointer": "/a", "detail": "b"}]})";
  const Outcome outcome = weir_at(answer(201, job), {"submit", path_});
  EXPECT_EQ(outcome.out, "J1\n");
  EXPECT_EQ(outcome.err, "warning: /a: b\n");
}

TEST_F(Spec, AFaultIsToldOnce) {
  const nlohmann::json fault{{"pointer", "/name"}, {"detail", "too long"}};
  const nlohmann::json problem{{"detail", "not valid: /name: too long"}, {"errors", nlohmann::json::array({fault})}};
  EXPECT_EQ(weir_at(answer(422, problem.dump()), {"submit", path_}).err, "weir: not valid: /name: too long\n");
}

/// A head with one running job, whose streams are given one after the other.
struct RunningJob {
  explicit RunningJob(std::vector<std::string> all)
      : streams(std::move(all)), head([this](const FakeRequest& request) { return reply(request); }) {}

  std::string reply(const FakeRequest& request) {
    if (request.line() == "POST /api/v1/jobs") return answer(201, job("PENDING"));
    if (request.has("GET /api/v1/stream")) {
      last_event_ids.push_back(request.has("Last-Event-ID: 5\r\n") ? "5" : "");
      const std::string events = streams.at(next++);
      if (next == streams.size()) state = final_state;
      return event_stream(events);
    }
    return answer(200, job(state, 4));
  }

  std::vector<std::string> streams;
  std::size_t next = 0;
  std::vector<std::string> last_event_ids;
  std::string state = "RUNNING";
  std::string final_state = "SUCCEEDED";
  FakeHttp head;
};

TEST_F(Spec, FollowGoesOnWhereABrokenStreamEnded) {
  const std::string metrics = R"({"job": "J1", "points": [["loss", null, 6, 1.5, 100, 0.25]]})";
  RunningJob running({": hello\n\nid: 5\nevent: metrics\ndata: " + metrics + "\n\n",
                      "id: 6\nevent: job_end\ndata: " + job("SUCCEEDED", 10) + "\n\n"});
  const Outcome outcome = weir({"--address", running.head.address(), "submit", path_, "--follow"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "J1\n");
  EXPECT_EQ(running.last_event_ids, (std::vector<std::string>{"", "5"}));
  EXPECT_THAT(outcome.err, HasSubstr("step 6/10  60%  loss 0.25  accuracy 90.0%"));
  EXPECT_THAT(outcome.err, HasSubstr("trying again"));
}

TEST_F(Spec, FollowGoesOnAfterWhatPasses) {
  std::vector<bool> from_5;  // of the times the stream was asked for: whether from the place it had told
  bool refused = false;
  bool read_again = false;  // when the stream went on
  FakeHttp head([&](const FakeRequest& request) -> std::string {
    if (request.line() == "POST /api/v1/jobs") return answer(201, job("PENDING"));
    if (request.has("GET /api/v1/stream")) {
      from_5.push_back(request.has("Last-Event-ID: 5\r\n"));
      if (from_5.size() == 1) return event_stream("id: 5\nretry: 1000\n\n");
      if (from_5.size() == 2) return answer(502, "", "text/html");  // of a proxy
      const std::string beat = "id: 6\nevent: beat\ndata: {}\n\n";
      return event_stream(beat + "id: 7\nevent: job_end\ndata: " + job("SUCCEEDED", 10) + "\n\n");
    }
    // The stream is open again, and the job cannot be read yet.
    if (from_5.size() == 3 && !std::exchange(refused, true)) return answer(503, R"({"detail": "starting"})");
    const bool ended = from_5.size() == 4 && std::exchange(read_again, true);
    return answer(200, ended ? job("SUCCEEDED", 10) : job("RUNNING", 4));
  });
  const Outcome outcome = weir({"--address", head.address(), "submit", path_, "--follow"});
  EXPECT_THAT(outcome.err, HasSubstr("SUCCEEDED"));
  EXPECT_TRUE(refused);
  EXPECT_EQ(from_5, (std::vector<bool>{false, true, true, true}));
}

TEST_F(Spec, FollowSaysThatTheJobWasDeleted) {
  RunningJob running({"id: 6\nevent: job_removed\ndata: {\"id\": \"J1\"}\n\n"});
  running.final_state = "RUNNING";
  const Outcome outcome = weir({"--address", running.head.address(), "submit", path_, "--follow"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("job J1 was deleted"));
}

TEST_F(Spec, FollowingAJobThatFailsExitsWithOne) {
  RunningJob running({"id: 6\nevent: job_end\ndata: " + job("FAILED", 4) + "\n\n"});
  running.final_state = "FAILED";
  const Outcome outcome = weir({"--address", running.head.address(), "submit", path_, "-f"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("FAILED"));
}

TEST_F(Spec, AJobThatCannotBeReadAfterItsEndIsPrintedAsItEnded) {
  int reads = 0;
  FakeHttp head([&](const FakeRequest& request) {
    if (request.line() == "POST /api/v1/jobs") return answer(201, job("PENDING"));
    // It is read before the stream is opened, when it is open, and after the end.
    if (!request.has("GET /api/v1/stream")) return ++reads > 2 ? answer(503, "{}") : answer(200, job("RUNNING", 4));
    return event_stream("id: 6\nevent: job_end\ndata: " + job("SUCCEEDED", 10) + "\n\n");
  });
  const Outcome outcome = weir({"--json", "--address", head.address(), "submit", path_, "--follow"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out, nullptr, false), nlohmann::json::parse(job("SUCCEEDED", 10)));
  EXPECT_EQ(reads, 3);
}

TEST_F(Spec, AFailureIsToldOnce) {
  const nlohmann::json event{{"severity", "error"}, {"kind", "job.state"}, {"message", "FAILED: out of memory"}};
  auto failed = nlohmann::json::parse(job("FAILED", 4));
  failed["reason"] = "out of memory";
  bool streamed = false;
  FakeHttp head([&](const FakeRequest& request) {
    if (request.line() == "POST /api/v1/jobs") return answer(201, job("PENDING"));
    if (!request.has("GET /api/v1/stream")) return answer(200, streamed ? failed.dump() : job("RUNNING", 4));
    streamed = true;
    return event_stream("event: event\ndata: " + event.dump() + "\n\nevent: job_end\ndata: " + failed.dump() + "\n\n");
  });
  const std::string told = weir({"--address", head.address(), "submit", path_, "-f"}).err;
  const auto at = told.find("FAILED: out of memory");
  EXPECT_NE(at, std::string::npos) << told;
  EXPECT_EQ(told.rfind("FAILED: out of memory"), at) << told;
}

TEST_F(Spec, AJobThatHasAlreadyEndedIsNotWaitedFor) {
  RunningJob running({});
  running.state = "STOPPED";
  EXPECT_EQ(weir({"--address", running.head.address(), "submit", path_, "-f"}).code, 1);
  EXPECT_TRUE(running.last_event_ids.empty());
}

/// A job as the API returns it while nothing has room for it.
std::string waiting_job() {
  auto waiting = nlohmann::json::parse(job("PENDING"));
  waiting["phase"] = "queued";
  waiting["reason"] = "no node has joined";
  return waiting.dump();
}

TEST_F(Spec, AProgramThatIsInterruptedLearnsTheId) {
  bool broken = false;
  FakeHttp head([&](const FakeRequest& request) -> std::string {
    if (request.line() == "POST /api/v1/jobs") return answer(201, job("PENDING"));
    if (broken) return answer(404, R"({"detail": "gone"})");
    if (!request.has("GET /api/v1/stream")) return answer(200, job("RUNNING", 4));
    ::kill(::getpid(), SIGINT);
    return "";
  });
  const auto followed = [&] {
    return nlohmann::json::parse(weir({"--json", "--address", head.address(), "submit", path_, "--follow"}).out);
  };
  const auto interrupted = followed();
  EXPECT_EQ(interrupted["id"], "J1");
  EXPECT_EQ(interrupted["error"]["kind"], "interrupted");
  broken = true;
  EXPECT_EQ(followed()["id"], "J1");
}

TEST_F(Spec, WhyAJobWaitsIsToldThoughNothingHappens) {
  FakeHttp head([](const FakeRequest& request) -> std::string {
    if (request.line() == "POST /api/v1/jobs") return answer(201, waiting_job());
    if (!request.has("GET /api/v1/stream")) return answer(200, waiting_job());
    ::kill(::getpid(), SIGINT);
    return "";  // and no event comes
  });
  const Outcome followed = weir({"--address", head.address(), "submit", path_, "--follow"});
  EXPECT_EQ(followed.code, 130);
  EXPECT_THAT(followed.err, HasSubstr("PENDING queued: no node has joined\n"));
  const Outcome submitted = weir({"--address", head.address(), "submit", path_});
  EXPECT_EQ(submitted.out, "J1\n");
  EXPECT_EQ(submitted.err, "The job waits: no node has joined\n");
}

TEST_F(Spec, InterruptLeavesTheJobRunning) {
  FakeHttp head([](const FakeRequest& request) -> std::string {
    if (request.line() == "POST /api/v1/jobs") return answer(201, job("PENDING"));
    if (!request.has("GET /api/v1/stream")) return answer(200, job("RUNNING", 4));
    ::kill(::getpid(), SIGINT);
    return "";  // and no answer comes any more
  });
  const Outcome outcome = weir({"--address", head.address(), "submit", path_, "--follow"});
  EXPECT_EQ(outcome.code, 130);
  EXPECT_THAT(outcome.err, HasSubstr("weir job stop J1"));
  for (const FakeRequest& request : head.requests()) EXPECT_THAT(request.line(), Not(HasSubstr("/stop")));
}

TEST(Program, StopSaysThatTheJobStops) {
  auto stopping = nlohmann::json::parse(job("RUNNING", 4));
  stopping["phase"] = "stopping";
  const auto said = [&] { return weir_at(answer(202, stopping.dump()), {"job", "stop", "J1"}).err; };
  EXPECT_EQ(said(), "stopping; a checkpoint is taken first\n");
  stopping["step"] = 0;
  EXPECT_EQ(said(), "stopping; if it trains, a checkpoint is taken first\n");
  EXPECT_EQ(weir_at(answer(200, job("STOPPED", 4)), {"job", "stop", "J1"}).err, "STOPPED\n");
}

TEST(Program, AJobThatWasRestartedShowsHowOften) {
  auto restarted = nlohmann::json::parse(job("RUNNING", 4));
  restarted["restarts"] = 2;
  EXPECT_THAT(weir_at(answer(200, restarted.dump()), {"job", "show", "J1"}).out, HasSubstr("\nrestarts"));
  EXPECT_THAT(weir_at(answer(200, job("RUNNING", 4)), {"job", "show", "J1"}).out, Not(HasSubstr("restarts")));
}

TEST(Program, ListsOfActorsAndNodesFollowTheCursor) {
  FakeHttp head([](const FakeRequest& request) {
    const std::string list = request.has("/actors?") ? "actors" : "nodes";
    const std::string name = request.has("cursor=c%2F1") ? "B" : "A";
    const std::string next = name == "A" ? "\"c/1\"" : "null";
    return answer(200, "{\"" + list + "\": [{\"name\": \"" + name + "\"}], \"next\": " + next + "}");
  });
  for (const std::string list : {"actor", "node"}) {
    const Outcome outcome = weir({"--address", head.address(), list, "list"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("\nA "), HasSubstr("\nB ")));
  }
  EXPECT_THAT(weir({"--address", head.address(), "actor", "list", "--limit", "1"}).err, HasSubstr("There are more"));
}

TEST(Program, ListsFollowTheCursor) {
  FakeHttp head([](const FakeRequest& request) {
    if (request.has("cursor=c%2F1")) return answer(200, R"({"jobs": [{"id": "B"}], "next": null})");
    return answer(200, R"({"jobs": [{"id": "A"}], "next": "c/1"})");
  });
  const Outcome outcome = weir({"--address", head.address(), "--json", "job", "list"});
  const auto listed = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(listed["jobs"].size(), 2U);
  EXPECT_TRUE(listed["next"].is_null());
}

TEST(Program, NodeAloneRunsOneAndWithACommandAsksTheHead) {
  const std::string nodes = R"({"nodes": [{"name": "a", "id": "N1", "state": "alive", "host": "127.0.0.1",
    "resources": {"cpu": 4, "memory": 8e9}, "used": {"cpu": 1}, "workers": [],
    "gpus": [{"index": 0, "state": "present", "utilization": 0.43},
             {"index": 1, "state": "present", "utilization": null},
             {"index": 2, "state": "lost", "utilization": null}]}], "next": null})";
  const Outcome outcome = weir_at(answer(200, nodes), {"node", "list"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cpu 1/4, memory 0 B/8.0 GB"));
  EXPECT_THAT(outcome.out, HasSubstr("0: 43 %, 1: unknown, 2: lost"));
}

TEST(Program, CompletionKnowsCommandsAndOptions) {
  const Outcome bash = weir({"completion", "bash"});
  EXPECT_EQ(bash.code, 0);
  EXPECT_THAT(
      bash.out,
      HasSubstr("\"job\") words=\"list show logs events metrics traffic trace checkpoints checkpoint stop delete"));
  EXPECT_THAT(bash.out, HasSubstr("--follow"));
  EXPECT_THAT(bash.out, HasSubstr("\"node\") words=\"list show drain forget --help"));
  EXPECT_THAT(bash.out, HasSubstr("\"actor\") words=\"list show --help"));  // nothing that has no route
  EXPECT_THAT(weir({"completion", "fish"}).out, HasSubstr("__fish_seen_subcommand_from job"));
  EXPECT_THAT(weir({"completion", "zsh"}).out, HasSubstr("#compdef weir"));
  EXPECT_EQ(weir({"completion", "tcsh"}).code, 2);
}

}  // namespace
}  // namespace weir::cli
