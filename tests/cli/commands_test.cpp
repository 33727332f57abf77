#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cluster/data_dir.hpp"
#include "tests/cli/fake_http.hpp"
#include "tests/cli/fake_logs.hpp"
#include "tests/cli/run_weir.hpp"

namespace weir::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace weir::cli::testing;
namespace fs = std::filesystem;

/// A directory of its own for each test.
class Commands : public ::testing::Test {
 protected:
  Commands() : dir_(fs::path(::testing::TempDir()) / ("weir-commands-" + std::to_string(::getpid()))) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~Commands() override { fs::remove_all(dir_); }

  std::string file(const std::string& name) const { return (dir_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(dir_ / name) << text; }
  std::string read(const std::string& name) const {
    std::ifstream stream(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const fs::path dir_;
};

std::vector<std::string> lines_of(const FakeHttp& head) {
  std::vector<std::string> lines;
  for (const auto& request : head.requests()) lines.push_back(request.line());
  return lines;
}

TEST_F(Commands, JobEventsReadsAllPages) {
  FakeHttp head([](const FakeRequest& request) {
    const bool second = request.has("cursor=7");
    return answer(200, json{{"events",
                             {{{"at", "T"},
                               {"severity", "info"},
                               {"kind", second ? "job.ended" : "job.started"},
                               {"node", "alpha"},
                               {"worker", nullptr},
                               {"message", "as it was"}}}},
                            {"next", second ? json() : json("7")}}
                           .dump());
  });
  const Outcome table = weir({"--address", head.address(), "job", "events", "J1"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.out,
            "TIME  SEVERITY  KIND         NODE   WORKER  MESSAGE\n"
            "T     info      job.started  alpha  -       as it was\n"
            "T     info      job.ended    alpha  -       as it was\n");
  const auto listed = json::parse(weir({"--address", head.address(), "job", "events", "J1", "--json"}).out);
  EXPECT_EQ(listed["events"].size(), 2U);
  EXPECT_EQ(listed["events"][1]["kind"], "job.ended");
  EXPECT_TRUE(listed["next"].is_null());
}

TEST_F(Commands, JobMetricsAsTableJsonAndCsv) {
  const std::string csv =
      "job,name,worker,x,min,max,last\r\n"
      "J1,bytes_sent,0,1,30000000,30000000,30000000\r\nJ1,bytes_sent,1,1,5,5,5\r\n"
      "J1,loss,,1,2.5,2.5,2.5\r\nJ1,loss,,2,3,3,3\r\nJ1,loss,,3,nan,nan,nan\r\nJ1,loss,,4,0.25,0.25,0.25\r\n";
  const json series = {
      {"job", "J1"},
      {"x", "wall"},
      {"series", {{{"name", "loss"}, {"worker", nullptr}, {"points", {{1, 0.5, 3, 2}, {2, 1, 4, 1}}}}}}};
  FakeHttp head([&](const FakeRequest& request) {
    return request.has("format=csv") ? answer(200, csv, "text/csv") : answer(200, series.dump());
  });
  const auto metrics = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--address", head.address(), "job", "metrics", "J1"});
    return weir(more);
  };
  const Outcome table = metrics({"--x", "wall", "--name", "loss"});
  EXPECT_EQ(table.out,
            "NAME        WORKER  POINTS  FIRST     LEAST     GREATEST  LAST\n"
            "bytes_sent  0       1       30000000  30000000  30000000  30000000\n"
            "bytes_sent  1       1       5         5         5         5\n"
            "loss        all     4       2.5       0.25      3         0.25\n");
  EXPECT_EQ(json::parse(metrics({"--json", "--points", "20"}).out), series);
  EXPECT_EQ(metrics({"--csv"}).out, csv);
  EXPECT_EQ(metrics({"--csv", "--points", "9"}).out, csv);
  EXPECT_EQ(metrics({"--json", "--points", "all"}).out, series.dump());
  EXPECT_THAT(lines_of(head), ElementsAre("GET /api/v1/jobs/J1/metrics?x=wall&points=all&name=loss&format=csv",
                                          "GET /api/v1/jobs/J1/metrics?x=step&points=20",
                                          "GET /api/v1/jobs/J1/metrics?x=step&points=all&format=csv",
                                          "GET /api/v1/jobs/J1/metrics?x=step&points=9&format=csv",
                                          "GET /api/v1/jobs/J1/metrics?x=step&points=all"));
  EXPECT_EQ(metrics({"--points", "all"}).code, 2) << "a table is a summary";
  EXPECT_EQ(metrics({"--points", "20"}).code, 2);
  EXPECT_EQ(metrics({"--points", "5001"}).code, 2);
  EXPECT_EQ(metrics({"--points", "0"}).code, 2);
}

TEST_F(Commands, JobMetricsThatAreNotUnderstoodAreAnError) {
  const Outcome outcome =
      weir_at(answer(200, "heading\r\nJ1,loss,,1,2,2,two\r\n", "text/csv"), {"job", "metrics", "J1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("\"two\" is no number"));
}

TEST_F(Commands, ADocumentThatIsCutShortIsAnError) {
  FakeHttp head([](const FakeRequest&) {
    return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n{\"a\":\r\n";
  });
  const Outcome outcome = weir({"--address", head.address(), "--json", "job", "metrics", "J1", "--points", "all"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(outcome.out, "{\"a\":") << "no JSON behind what was begun";
  EXPECT_THAT(outcome.err, StartsWith("weir: "));
}

TEST_F(Commands, JobTraceGoesToAFileOrOn) {
  const std::string trace = R"({"traceEvents":[]})";
  FakeHttp head([&](const FakeRequest&) { return answer(200, trace); });
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--address", head.address(), "job", "trace", "J1"});
    return weir(std::move(more));
  };
  EXPECT_EQ(run({}).out, trace);
  EXPECT_EQ(run({"-o", "-", "--step", "sampled"}).out, trace);
  const auto saved = run({"-o", file("t.json"), "--step", "slowest"});
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_EQ(saved.out, "");
  EXPECT_EQ(read("t.json"), trace);
  EXPECT_THAT(lines_of(head),
              ElementsAre("GET /api/v1/jobs/J1/trace?step=sampled", "GET /api/v1/jobs/J1/trace?step=sampled",
                          "GET /api/v1/jobs/J1/trace?step=slowest"));

  write("t.json", "mine");
  EXPECT_EQ(run({"-o", file("t.json")}).code, 1);
  EXPECT_EQ(read("t.json"), "mine");
  const auto as_json = json::parse(run({"-o", file("t.json"), "--force", "--json"}).out);
  EXPECT_EQ(as_json, (json{{"job", "J1"}, {"file", file("t.json")}, {"bytes", trace.size()}}));
  EXPECT_EQ(read("t.json"), trace);
  EXPECT_EQ(run({"--step", "7"}).code, 2);
  EXPECT_EQ(weir_at(answer(404, "{}"), {"job", "trace", "J9", "-o", file("none.json")}).code, 3);
  EXPECT_THAT(files(), ElementsAre("t.json")) << "nothing is left of what failed";
}

TEST_F(Commands, JobStopAndDelete) {
  FakeHttp head([](const FakeRequest& request) {
    return request.has("DELETE ") ? answer(204, "") : answer(202, job("RUNNING"));
  });
  EXPECT_EQ(weir({"--address", head.address(), "job", "stop", "J/1"}).err, "RUNNING\n");
  EXPECT_EQ(json::parse(weir({"--address", head.address(), "job", "stop", "J1", "--json"}).out)["state"], "RUNNING");
  const Outcome deleted = weir({"--address", head.address(), "job", "delete", "J1"});
  EXPECT_EQ(deleted.out, "");
  EXPECT_EQ(deleted.err, "deleted J1\n");
  EXPECT_EQ(json::parse(weir({"--address", head.address(), "job", "delete", "J1", "--json"}).out),
            (json{{"deleted", "J1"}}));
  EXPECT_THAT(lines_of(head), ElementsAre("POST /api/v1/jobs/J%2F1/stop", "POST /api/v1/jobs/J1/stop",
                                          "DELETE /api/v1/jobs/J1", "DELETE /api/v1/jobs/J1"));
}

TEST_F(Commands, ErrorsUnderJsonAreJson) {
  const auto error = [](const Outcome& outcome) {
    const auto parsed = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << outcome.out;
    EXPECT_EQ(parsed.value("/error/exit_code"_json_pointer, -1), outcome.code);
    EXPECT_THAT(outcome.err, HasSubstr(parsed.value("/error/message"_json_pointer, "?"))) << "and people are told, too";
    return parsed.value("/error/kind"_json_pointer, "");
  };
  const std::string missing = R"({"detail": "there is no job J9"})";
  const Outcome not_found = weir_at(answer(404, missing, "application/problem+json"), {"job", "show", "J9", "--json"});
  EXPECT_EQ(json::parse(not_found.out),
            json::parse(R"({"error": {"kind": "not_found", "message": "there is no job J9", "exit_code": 3}})"));
  EXPECT_EQ(error(not_found), "not_found");
  EXPECT_EQ(error(weir_at(answer(401, "{}"), {"--json", "node", "list"})), "no_access");
  EXPECT_EQ(error(weir_at(answer(409, "{}"), {"--json", "job", "delete", "J1"})), "failed");
  EXPECT_EQ(error(weir_at(answer(404, missing), {"--json", "job", "logs", "J9"})), "not_found");
  EXPECT_EQ(error(weir_at(answer(404, missing), {"--json", "job", "metrics", "J9"})), "not_found");
  EXPECT_EQ(error(weir({"--json", "job", "metrics", "J9", "--csv"})), "usage") << "which of the two?";
  EXPECT_EQ(error(weir({"--json", "--address", "nonsense", "job", "list"})), "usage");
  EXPECT_EQ(error(weir({"--json", "job", "list", "--colour"})), "usage");
  EXPECT_EQ(error(weir({"job", "list", "--colour", "--json"})), "usage");
  EXPECT_EQ(weir_at(answer(404, missing), {"job", "show", "J9"}).out, "") << "only under --json";
}

TEST_F(Commands, NodeDrain) {
  const std::string node = R"({"name": "alpha", "id": "N1", "state": "draining"})";
  FakeHttp head([&](const FakeRequest&) { return answer(200, node); });
  const Outcome outcome = weir({"--address", head.address(), "node", "drain", "alpha"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "alpha is draining: nothing new is placed there\n");
  EXPECT_EQ(json::parse(weir({"--address", head.address(), "node", "drain", "alpha", "--json"}).out),
            json::parse(node));
  EXPECT_THAT(lines_of(head), ElementsAre("POST /api/v1/nodes/alpha/drain", "POST /api/v1/nodes/alpha/drain"));
}

TEST_F(Commands, NodeDrainUndoneSaysWhenTheNodeTakesWork) {
  const auto undone = [](const std::string& state) {
    const auto node = json{{"name", "alpha"}, {"state", state}}.dump();
    return weir_at(answer(200, node), {"node", "drain", "alpha", "--undo"}).err;
  };
  EXPECT_EQ(undone("alive"), "alpha is alive: it takes work again\n");
  EXPECT_EQ(undone("lost"), "alpha is lost: when it joins again, it takes work\n");
}

TEST_F(Commands, NodeForget) {
  FakeHttp head([](const FakeRequest&) { return answer(204, ""); });
  const Outcome outcome = weir({"--address", head.address(), "node", "forget", "rack/1"});
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "forgot rack/1: if it joins again, it is a new node\n");
  EXPECT_EQ(json::parse(weir({"--address", head.address(), "node", "forget", "N1", "--json"}).out),
            (json{{"forgotten", "N1"}}));
  EXPECT_THAT(lines_of(head), ElementsAre("DELETE /api/v1/nodes/rack%2F1", "DELETE /api/v1/nodes/N1"));
  EXPECT_EQ(weir_at(answer(409, "{}"), {"node", "forget", "N1"}).code, 1);
}

TEST_F(Commands, ActorsAreSearched) {
  FakeHttp head([](const FakeRequest&) { return answer(200, R"({"actors": [], "next": null})"); });
  EXPECT_EQ(weir({"--address", head.address(), "actor", "list", "--search", "job/J 1"}).code, 0);
  EXPECT_THAT(lines_of(head), ElementsAre("GET /api/v1/actors?q=job%2FJ%201&limit=1000"));
}

TEST_F(Commands, CatalogNeedsNoHead) {
  const Outcome own = weir({"catalog"});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, "models\n  built-in-model  small\n");
  EXPECT_EQ(json::parse(weir({"catalog", "models", "--json"}).out), json::parse(catalog));
  EXPECT_EQ(weir({"catalog", "datasets"}).code, 3);
  const std::string other = R"({"models": [{"name": "theirs", "summary": "large"}]})";
  EXPECT_EQ(weir_at(answer(200, other), {"catalog"}).out, "models\n  theirs  large\n") << "that of the head named";
}

TEST_F(Commands, TokenShowPrintsTheDataDirectorys) {
  write("token", "abc123\n");
  EXPECT_EQ(weir({"--data-dir", dir_, "token", "show"}).out, "abc123\n");
  EXPECT_EQ(json::parse(weir({"--data-dir", dir_, "token", "show", "--json"}).out), (json{{"token", "abc123"}}));
  EXPECT_EQ(weir({"--data-dir", file("none"), "token", "show"}).code, 3);
  const std::string link = R"({"url": "http://127.0.0.1:1/login?code=x", "expires_at": "T"})";
  const Outcome linked = weir_at(answer(201, link), {"token", "link"});
  EXPECT_EQ(linked.out, "http://127.0.0.1:1/login?code=x\n");
  EXPECT_THAT(linked.err, HasSubstr("until T"));
}

TEST_F(Commands, TheTokenOfADataDirectoryGoesToItsHeadOnly) {
  FakeHttp other([](const FakeRequest&) { return answer(200, R"({"jobs": [], "next": null})"); });
  const std::string port = other.address().substr(other.address().rfind(':'));
  write("token", "ours\n");
  const auto held = cluster::DataDir::open(dir_);
  ASSERT_TRUE(held) << held.error().message();
  const auto sent = [&](const std::string& recorded, std::vector<std::string> words) {
    write("endpoints.json", json{{"http", recorded}}.dump());
    words.insert(words.begin(), {"--data-dir", dir_, "job", "list"});
    EXPECT_EQ(weir(words).code, 0);
    const auto request = other.requests().back();
    const auto at = request.head.find("Authorization: Bearer ");
    return at == std::string::npos ? "" : request.head.substr(at + 22, request.head.find("\r\n", at) - at - 22);
  };
  EXPECT_EQ(sent(other.address(), {}), "ours") << "found where it was recorded";
  EXPECT_EQ(sent(other.address(), {"--address", other.address()}), "ours") << "the same head, named";
  EXPECT_EQ(sent(other.address(), {"--address", "http://localhost" + port + "/"}), "ours") << "by another name";
  EXPECT_EQ(sent("0.0.0.0" + port, {"--address", other.address()}), "ours") << "it listens everywhere";
  EXPECT_EQ(sent("127.0.0.1:1", {"--address", other.address()}), "") << "another head";
  EXPECT_EQ(sent("10.0.0.1" + port, {"--address", other.address()}), "") << "another machine's";
  EXPECT_EQ(sent("127.0.0.1:1", {"--address", other.address(), "--token", "theirs"}), "theirs") << "told to";
  fs::remove(file("endpoints.json"));
  EXPECT_EQ(weir({"--data-dir", dir_, "--address", other.address(), "job", "list"}).code, 0);
  EXPECT_THAT(other.requests().back().head, Not(HasSubstr("Authorization"))) << "not where heads listen by default";
}

TEST_F(Commands, TheTokenOfADataDirectoryGoesToNobodyWhenItsHeadHasEnded) {
  FakeHttp other([](const FakeRequest&) { return answer(401, "{}"); });  // it has the port by now
  write("token", "ours\n");
  write("endpoints.json", json{{"http", other.address()}}.dump());
  const auto sent = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"--data-dir", dir_, "job", "list"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = weir(words);
    EXPECT_EQ(outcome.code, 4);
    EXPECT_THAT(outcome.err, HasSubstr("sent only to the head that wrote it, while that runs"));
    return other.requests().back().has("Authorization: Bearer ");
  };
  EXPECT_FALSE(sent({})) << "no head has locked the directory";
  EXPECT_FALSE(fs::exists(file("lock"))) << "nor does a command";
  { ASSERT_TRUE(cluster::DataDir::open(dir_)); }
  EXPECT_TRUE(fs::exists(file("lock")));
  EXPECT_FALSE(sent({})) << "its head has ended";
  EXPECT_FALSE(sent({"--address", other.address()}));
  EXPECT_TRUE(sent({"--token", "ours"})) << "told to";
  const auto held = cluster::DataDir::open(dir_);
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_TRUE(sent({})) << "it is there again";
}

/// What the doctor has found out about one thing.
json finding(const Outcome& outcome, const std::string& what) {
  const auto checks = json::parse(outcome.out, nullptr, false)["checks"];
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const json& one) { return one["what"] == what; });
  return found == checks.end() ? json::object() : *found;
}

TEST_F(Commands, DoctorSaysWhatIsFoundAndWhatToDo) {
  write("token", "abc\n");
  fs::permissions(dir_, fs::perms::owner_all);
  fs::permissions(file("token"), fs::perms::owner_read | fs::perms::others_read);
  FakeHttp head([](const FakeRequest&) { return answer(200, R"({"version": "9.9"})"); });
  const Outcome outcome = weir({"--data-dir", dir_, "--address", head.address(), "--json", "doctor"});
  EXPECT_EQ(outcome.code, 1) << "others may read the token";
  EXPECT_EQ(json::parse(outcome.out)["healthy"], false);
  const auto check = [&](const std::string& what) { return finding(outcome, what); };
  EXPECT_EQ(check("data directory"),
            (json{{"level", "ok"}, {"what", "data directory"}, {"found", dir_.string()}, {"advice", ""}}));
  fs::permissions(dir_, fs::perms::others_read, fs::perm_options::add);
  const auto open_to_all = finding(weir({"--data-dir", dir_, "--json", "doctor"}), "data directory");
  EXPECT_EQ(open_to_all["level"], "note");
  EXPECT_EQ(open_to_all["advice"], "chmod -R go= " + dir_.string());
  EXPECT_EQ(check("token")["level"], "bad");
  EXPECT_EQ(check("token")["advice"], "chmod 600 " + file("token"));
  EXPECT_EQ(check("head")["level"], "ok");
  for (const char* optional : {"cuDNN", "NCCL"}) {
    const auto one = check(optional);
    ASSERT_FALSE(one.empty()) << optional;
    EXPECT_NE(one["level"], "bad") << "jobs run without it";
    EXPECT_EQ(one["level"] == "note", one["advice"].get<std::string>().find("install") != std::string::npos) << one;
  }
  EXPECT_EQ(check("head")["found"], "weir 9.9 at " + head.address());
  const Outcome text = weir({"--data-dir", dir_, "--address", head.address(), "doctor"});
  EXPECT_THAT(text.out, HasSubstr("bad  token: " + file("token") + " may be read by others\n     chmod 600 "));
}

TEST_F(Commands, DoctorTakesARelativeDataDirectory) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_);
  const Outcome outcome = weir({"--data-dir", "new/data", "--address", "127.0.0.1:1", "--json", "doctor"});
  fs::current_path(before);
  EXPECT_EQ(finding(outcome, "data directory"), (json{{"level", "ok"},
                                                      {"what", "data directory"},
                                                      {"found", file("new/data") + " (made when a head first starts)"},
                                                      {"advice", ""}}));
}

TEST_F(Commands, DoctorFindsAWorkerThatCannotRunAndANamedHeadThatDoesNotAnswer) {
  write("worker", "no program");
  const Outcome outcome =
      weir({"--data-dir", dir_, "--address", "127.0.0.1:1", "--json", "doctor", "--worker", file("worker")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(finding(outcome, "weir-worker")["level"], "bad");
  EXPECT_EQ(finding(outcome, "head")["level"], "bad");
  write("endpoints.json", R"({"http": "127.0.0.1:1"})");
  EXPECT_EQ(finding(weir({"--data-dir", dir_, "--json", "doctor"}), "head")["level"], "note") << "nobody asked for it";
}

TEST_F(Commands, DoctorSaysThatAHeadAnswersOnlyIfItDoes) {
  const auto head_at = [&](const std::string& address) {
    return finding(weir({"--data-dir", dir_, "--address", address, "--json", "doctor"}), "head");
  };
  FakeHttp refusing([](const FakeRequest&) { return answer(401, R"({"detail": "the token is wrong"})"); });
  EXPECT_EQ(head_at(refusing.address())["level"], "bad");
  EXPECT_THAT(head_at(refusing.address())["found"],
              StartsWith("answers at " + refusing.address() + ", but: the token"));
  FakeHttp other([](const FakeRequest&) { return answer(200, "<html>"); });
  EXPECT_THAT(head_at(other.address())["found"], StartsWith("answers at " + other.address() + ", but: "));
  EXPECT_EQ(head_at("nonsense")["level"], "bad");
  EXPECT_THAT(head_at("nonsense")["found"], Not(HasSubstr("answers at")));
}

/// A head with checkpoints at steps 10 and 20, of three and four bytes.
struct Checkpoints {
  FakeHttp head{[this](const FakeRequest& request) {
    if (request.has("/checkpoints/20 ")) return answer(200, body, "application/octet-stream");
    if (request.has("/checkpoints/10 ")) return answer(200, "abc", "application/octet-stream");
    if (request.has("/jobs/J2/")) return answer(200, R"({"checkpoints": [], "next": null})");
    return answer(200, R"({"checkpoints": [{"step": 10, "bytes": 3, "created_at": "T1"},
                           {"step": 20, "bytes": 4, "created_at": "T2"}], "next": null})");
  }};
  std::string body = "wxyz";
};

TEST_F(Commands, CheckpointsAreListed) {
  Checkpoints job;
  const Outcome table = weir({"--address", job.head.address(), "job", "checkpoints", "J1"});
  EXPECT_EQ(table.out, "STEP  SIZE  CREATED\n10    3 B   T1\n20    4 B   T2\n");
  const auto listed = json::parse(weir({"--address", job.head.address(), "job", "checkpoints", "J1", "--json"}).out);
  EXPECT_EQ(listed["checkpoints"][1]["step"], 20);
}

TEST_F(Commands, ACheckpointIsWrittenWholeOrNotAtAll) {
  Checkpoints job;
  const auto fetch = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--address", job.head.address(), "job", "checkpoint"});
    return weir(words);
  };
  EXPECT_EQ(fetch({"J1", "latest", "-o", file("a")}).code, 0);
  EXPECT_EQ(read("a"), "wxyz");
  const Outcome taken = fetch({"J1", "10", "-o", file("a")});
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.err, HasSubstr("--force"));
  EXPECT_EQ(read("a"), "wxyz");
  const Outcome forced = fetch({"J1", "10", "-o", file("a"), "--force", "--json"});
  EXPECT_EQ(json::parse(forced.out),
            (json{{"job", "J1"}, {"step", 10}, {"bytes", 3}, {"created_at", "T1"}, {"file", file("a")}}));
  EXPECT_EQ(read("a"), "abc");
  EXPECT_EQ(fetch({"J1", "30", "-o", file("b")}).code, 3);
  EXPECT_EQ(fetch({"J2", "latest", "-o", file("b")}).code, 3);
  EXPECT_EQ(fetch({"J1", "newest", "-o", file("b")}).code, 2);
  EXPECT_EQ(fetch({"J1", "10", "-o", file("no/such/dir")}).code, 1);
  job.body = "wxy";
  const Outcome too_small = fetch({"J1", "20", "-o", file("b")});
  EXPECT_EQ(too_small.code, 1);
  EXPECT_THAT(too_small.err, HasSubstr("should have 4 bytes, but 3 came"));
  EXPECT_THAT(files(), ElementsAre("a")) << "nothing is left of what failed";
}

TEST_F(Commands, ACheckpointGoesToStandardOutput) {
  Checkpoints job;
  job.body = std::string("w\0\x1bz", 4);
  const auto fetch = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--address", job.head.address(), "job", "checkpoint"});
    return weir(words);
  };
  const Outcome printed = fetch({"J1", "latest", "-o", "-"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(printed.out, job.body) << "byte for byte";
  EXPECT_EQ(printed.err, "step 20, 4 B: standard output\n");
  EXPECT_FALSE(fs::exists("-"));
  EXPECT_EQ(fetch({"J1", "latest", "-o", "-", "--json"}).code, 2) << "there is one standard output";
  EXPECT_EQ(fetch({"J1", "30", "-o", "-"}).code, 3);
  job.body = "wxy";
  const Outcome too_small = fetch({"J1", "20", "-o", "-"});
  EXPECT_EQ(too_small.code, 1);
  EXPECT_THAT(too_small.err, HasSubstr("should have 4 bytes, but 3 came"));
}

TEST_F(Commands, ATerminalIsSentNothingThatItObeys) {
  const std::string evil =
      "a\x1b]0;owned\x07\x1b[2J\xc2\x9b"
      "31m\rb";
  const json hostile = {{"jobs", {{{"id", "J1"}, {"name", evil + "\n"}, {"state", "RUNNING"}}}}, {"next", nullptr}};
  FakeHttp head([&](const FakeRequest& request) {
    if (request.has("/logs?")) return log_answer(request, {{0, evil + "\n"}}, true);
    if (request.has("/metrics?")) return answer(200, "name\n" + evil + "\n", "text/csv");
    if (request.has("GET /api/v1/jobs?")) return answer(200, hostile.dump());
    return answer(404, json{{"detail", "no " + evil}}.dump());
  });
  const std::vector<std::string> at{"--address", head.address()};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), at.begin(), at.end());
    return words;
  };
  const std::string visible = R"(a\x1b]0;owned\x07\x1b[2J\x9b31m\x0db)";
  const auto obeyed = [](const std::string& text) {
    return text.find_first_of("\x1b\x07\r") != std::string::npos || text.find("\xc2\x9b") != std::string::npos;
  };

  const auto logs = with({"job", "logs", "J1", "--worker", "0"});
  EXPECT_EQ(weir_on_terminal(logs), visible + "\n");
  EXPECT_EQ(weir(logs).out, evil + "\n") << "a pipe gets the log as it is";
  const auto csv = with({"job", "metrics", "J1", "--csv"});
  EXPECT_EQ(weir_on_terminal(csv), "name\n" + visible + "\n");
  EXPECT_EQ(weir(csv).out, "name\n" + evil + "\n");

  const Outcome table = weir(with({"job", "list"}));
  EXPECT_THAT(table.out, HasSubstr(visible + "\\x0a")) << "names are clean in a pipe, too, and stay in their cell";
  EXPECT_FALSE(obeyed(table.out));
  EXPECT_EQ(weir_on_terminal(with({"job", "list"})), table.out);
  const Outcome document = weir(with({"--json", "job", "list"}));
  EXPECT_FALSE(obeyed(document.out)) << document.out;
  EXPECT_EQ(json::parse(document.out), hostile) << "the same document";
  const Outcome refused = weir(with({"job", "show", "J1"}));
  EXPECT_EQ(refused.err, "weir: no " + visible + "\n");
}

}  // namespace
}  // namespace weir::cli
