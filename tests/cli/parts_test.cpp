#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "base/printable.hpp"
#include "cli/api.hpp"
#include "cli/format.hpp"
#include "cli/metric_summary.hpp"
#include "cli/progress.hpp"
#include "cli/resources.hpp"
#include "cli/server_sent_events.hpp"
#include "cli/set_option.hpp"
#include "cli/up_arguments.hpp"

namespace weir::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SetOption, ValuesHaveTheTypeTheyReadAs) {
  json spec = json::parse(R"({"training": {"epochs": 2}})");
  for (const char* assignment : {"training.epochs=3", "training.optimizer.lr=0.05", "name=lenet", "dataset.path=null",
                                 "training.optimizer.nesterov=true", "a=\"3\"", "b=[1,2]", "c=x=y", "d="}) {
    ASSERT_TRUE(apply_set(spec, assignment)) << assignment;
  }
  EXPECT_EQ(spec, json::parse(R"({"training": {"epochs": 3, "optimizer": {"lr": 0.05, "nesterov": true}},
    "name": "lenet", "dataset": {"path": null}, "a": "3", "b": [1, 2], "c": "x=y", "d": ""})"));
}

TEST(SetOption, RefusesWhatIsNoAssignment) {
  json spec = json::parse(R"({"name": "x"})");
  for (const char* assignment :
       {"training.epochs", "=3", "a..b=1", ".a=1", "a.=1", "name.x=1", "name=\xff", "\xc3.a=1"}) {
    const auto set = apply_set(spec, assignment);
    ASSERT_FALSE(set) << assignment;
    EXPECT_EQ(set.error().code, Errc::invalid_argument);
  }
}

TEST(MetricSummary, IsTheSameHoweverTheDocumentArrives) {
  const std::string document = "job,name,worker,x,min,max,last\r\nJ,a,,1,4,4,4\r\nJ,a,,2,-1,-1,-1\r\nJ,a,0,1,7,7,7\r\n";
  for (std::size_t piece : {std::size_t{1}, std::size_t{7}, document.size()}) {
    MetricSummary summary;
    for (std::size_t at = 0; at < document.size(); at += piece) ASSERT_TRUE(summary.add(document.substr(at, piece)));
    ASSERT_EQ(summary.series().size(), 2U);
    const auto& whole = summary.series()[0];
    EXPECT_EQ(whole.name, "a");
    EXPECT_EQ(whole.worker, "");
    EXPECT_EQ(whole.points, 2U);
    EXPECT_EQ((std::vector{whole.first, whole.least, whole.greatest, whole.last}), (std::vector<double>{4, -1, 4, -1}));
    EXPECT_EQ(summary.series()[1].worker, "0");
  }
}

TEST(UpArguments, TheHeadIsToldWhatUpWasTold) {
  UpOptions options;
  options.listen = "127.0.0.1:6380";
  EXPECT_THAT(head_arguments("/data", options),
              ElementsAre("head", "--data-dir", "/data", "--listen", "127.0.0.1:6380", "--http", "127.0.0.1:8265"));
  options.http = "0.0.0.0:80";
  options.insecure = true;
  options.public_url = "https://weir.example";
  options.allow_hosts = {"a", "b:80"};
  EXPECT_THAT(
      head_arguments("/data", options),
      ElementsAre("head", "--data-dir", "/data", "--listen", "127.0.0.1:6380", "--http", "0.0.0.0:80", "--allow-host",
                  "a", "--allow-host", "b:80", "--public-url", "https://weir.example", "--insecure"));
}

TEST(UpArguments, NodesDivideTheMachine) {
  const protocol::Resources machine{{"cpu", 9}, {"memory", 10e9}};
  UpOptions options;
  EXPECT_THAT(
      node_arguments(2, "127.0.0.1:6380", options, machine),
      ElementsAre("node", "--head", "127.0.0.1:6380", "--name", "node-2", "--resources", "cpu=4,memory=5000000000"));
  options.nodes = 8;
  options.modules = "/modules";
  EXPECT_THAT(node_arguments(1, "127.0.0.1:6380", options, machine),
              ElementsAre("node", "--head", "127.0.0.1:6380", "--name", "node-1", "--resources",
                          "cpu=2,memory=1250000000", "--modules", "/modules"))
      << "never less than two cores";
  options.cpus_per_node = 0.5;
  EXPECT_THAT(node_arguments(1, "", options, machine), ::testing::Contains("cpu=0.5,memory=1250000000"));
}

TEST(ServerSentEvents, AreTakenApartHoweverTheyArrive) {
  const std::string stream =
      "retry: 1000\n: comment\n\nid: 7\nevent: job\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: empty\n\nid:8\n"
      "data\n\nid: 9\nretry: 1\n\n";
  for (std::size_t piece : {std::size_t{1}, std::size_t{3}, stream.size()}) {
    EventParser parser;
    std::vector<ServerSentEvent> events;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      ASSERT_TRUE(parser.feed(stream.substr(at, piece)));
      while (auto event = parser.next()) events.push_back(*event);
    }
    ASSERT_EQ(events.size(), 3U) << "in pieces of " << piece;
    EXPECT_EQ(events[0].id, "7");
    EXPECT_EQ(events[0].name, "job");
    EXPECT_EQ(events[0].data, "{\"a\":\n1}");
    EXPECT_EQ(events[1].id, std::nullopt);
    EXPECT_EQ(events[1].name, "message");
    EXPECT_EQ(events[1].data, "x");
    EXPECT_EQ(parser.last_id(), "9") << "a place without an event";
    EXPECT_EQ(events[2].id, "8");
    EXPECT_EQ(events[2].data, "");
  }
}

TEST(ServerSentEvents, AnEndlessEventIsRefused) {
  EventParser parser;
  const std::string piece(1 << 20, 'x');
  Result<void> fed;
  for (int i = 0; fed && i < 20; ++i) fed = parser.feed(piece);
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, Errc::malformed);
}

json metrics(std::initializer_list<std::pair<const char*, double>> values, int step) {
  json points = json::array();
  for (const auto& [name, value] : values) points.push_back({name, nullptr, step, 1.0, 100, value});
  return {{"job", "J"}, {"points", points}};
}

TEST(OneLine, IsCutBetweenCharacters) {
  EXPECT_EQ(one_line("step 1", 80), "step 1");
  EXPECT_EQ(one_line("step 1", 4), "step");
  EXPECT_EQ(one_line("step 1", 0), "");
  EXPECT_EQ(one_line("\u00b5\u00b5\u00b5s", 2), "\u00b5\u00b5");
  EXPECT_EQ(one_line("two\nlines\tand\x1b[2J", 80), "two lines and\\x1b[2J");
}

TEST(Progress, WaitingJobsSayWhy) {
  Progress progress;
  progress.take_job({{"state", "PENDING"}, {"phase", "queued"}, {"reason", "node a lacks 2 cpu"}, {"step", 0}}, 0);
  EXPECT_EQ(progress.line(0), "PENDING queued: node a lacks 2 cpu");
}

TEST(Progress, OneLineTellsHowFarAndHowLong) {
  Progress progress;
  progress.take_job({{"state", "RUNNING"}, {"phase", "training"}, {"step", 20}, {"steps_total", 120}}, 100);
  progress.take_metrics(metrics({{"loss", 0.53214},
                                 {"accuracy", 0.8512},
                                 {"samples_per_second", 3210.4},
                                 {"bytes_sent", 1.2e6},
                                 {"bytes_dense", 340.1e6}},
                                70),
                        105);
  EXPECT_EQ(progress.line(105),
            "step 70/120  58%  ETA 0:05  loss 0.5321  accuracy 85.1%  3210 samples/s  sent 1.2 MB of 340.1 MB dense "
            "(283x)");
  EXPECT_FALSE(progress.ended());
}

TEST(Progress, EstimatesNothingFromTheFirstMoments) {
  Progress progress;
  progress.take_job({{"state", "RUNNING"}, {"phase", "training"}, {"step", 20}, {"steps_total", 120}}, 100);
  progress.take_metrics(metrics({{"loss", 0.5}}, 22), 102.9);
  EXPECT_EQ(progress.line(102.9), "step 22/120  18%  loss 0.5");
  progress.take_metrics(metrics({{"loss", 0.5}}, 22), 103);
  EXPECT_EQ(progress.line(103), "step 22/120  18%  ETA 2:27  loss 0.5");
}

TEST(Progress, IgnoresSingleWorkersAndRecordsItDoesNotKnow) {
  Progress progress;
  progress.take_job({{"state", "RUNNING"}, {"phase", "training"}, {"step", 1}}, 0);
  progress.take_metrics(json::parse(R"({"points": [["loss", 0, 5, 1, 1, 9.0], ["loss"], 3, "x"]})"), 1);
  progress.take_metrics(json::parse("[]"), 1);
  progress.take_metrics(json(), 1);
  EXPECT_EQ(progress.line(1), "step 1");
}

TEST(Progress, ARestartTakesTheStepsBackAndBeginsTheEstimateAnew) {
  Progress progress;
  json job = {{"state", "RUNNING"}, {"phase", "training"}, {"step", 50}, {"steps_total", 100}, {"restarts", 0}};
  const auto point = [](int step, int restarts) {
    return json{{"restarts", restarts}, {"points", {{"loss", nullptr, step, 1, 1, 0.5}}}};
  };
  progress.take_job(job, 0);
  progress.take_metrics(point(60, 0), 10);
  job.update({{"phase", "recovering"}, {"restarts", 1}, {"reason", "node b was lost"}});
  progress.take_job(job, 100);
  EXPECT_EQ(progress.line(100), "RUNNING recovering: node b was lost");
  job.update({{"phase", "training"}, {"reason", nullptr}});
  progress.take_job(job, 110);
  progress.take_metrics(point(20, 1), 120);
  progress.take_metrics(point(61, 0), 121);  // late, of the first attempt
  progress.take_job(job, 122);
  EXPECT_EQ(progress.line(122), "step 20/100  20%  loss 0.5");
  progress.take_metrics(point(30, 1), 130);
  EXPECT_EQ(progress.line(130), "step 30/100  30%  ETA 1:10  loss 0.5") << "of the steps since the restart";
}

TEST(Progress, ALossIsShortHoweverGreat) {
  Progress progress;
  progress.take_job({{"state", "RUNNING"}, {"phase", "training"}, {"step", 1}, {"summary", {{"loss", 1.25e35}}}}, 0);
  EXPECT_EQ(progress.line(0), "step 1  loss 1.25e+35");
}

TEST(Progress, TheVerdictHasStateCauseAndResult) {
  Progress progress;
  progress.take_job({{"state", "FAILED"}, {"phase", ""}, {"reason", "worker 2 on b was killed"}, {"step", 7}}, 0);
  EXPECT_TRUE(progress.ended());
  EXPECT_FALSE(progress.succeeded());
  EXPECT_THAT(progress.verdict(), HasSubstr("FAILED: worker 2 on b was killed"));
  EXPECT_THAT(progress.verdict(), HasSubstr("7 steps"));
}

TEST(Format, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(999'960), "1.0 MB");
  EXPECT_EQ(bytes_text(12.34e9), "12.3 GB");
}

TEST(Format, Durations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(725), "12:05");
  EXPECT_EQ(duration_text(11'220), "3:07:00");
}

TEST(Format, MeasuredTimes) {
  EXPECT_EQ(seconds_text(0), "0 us");
  EXPECT_EQ(seconds_text(0.00005), "50 us");
  EXPECT_EQ(seconds_text(0.0009996), "1 ms");
  EXPECT_EQ(seconds_text(0.15242), "152 ms");
  EXPECT_EQ(seconds_text(0.9996), "1 s");
  EXPECT_EQ(seconds_text(1.5), "1.5 s");
}

TEST(Format, TablesAlign) {
  Table table({"A", "LONG"});
  table.add({"value", "x"});
  table.add({"v", ""});
  EXPECT_EQ(table.str(), "A      LONG\nvalue  x\nv\n");
}

TEST(Printable, KeepsTextAndShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\tand\nlines"),
            "plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\tand\nlines");
  EXPECT_EQ(printable("\x1b[31m\r\x7f\b"), R"(\x1b[31m\x0d\x7f\x08)");
  EXPECT_EQ(printable(std::string_view("\0", 1)), R"(\x00)");
  EXPECT_EQ(printable("\xc2\x80 \xc2\x9b \xc2\xa0"), "\\x80 \\x9b \xc2\xa0") << "C1 ends at U+009F";
  // Not UTF-8: a lone byte of C1, an end that is missing, overlong, a surrogate, too large.
  EXPECT_EQ(printable("\x9b"
                      "1m"),
            R"(\x9b1m)");
  EXPECT_EQ(printable("\xe2\x82"), R"(\xe2\x82)");
  EXPECT_EQ(printable("\xc0\x9b"), R"(\xc0\x9b)");
  EXPECT_EQ(printable("\xe0\x82\x9b"), R"(\xe0\x82\x9b)") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");
  EXPECT_EQ(printable_line("a\nb\tc"), R"(a\x0ab\x09c)");
  EXPECT_EQ(printable_json("\"\x7f\xc2\x9b\xc3\xa4\""), "\"\\u007f\\u009b\xc3\xa4\"");
}

TEST(Resources, Labels) {
  const auto labels = parse_labels("zone=a,disk=ssd");
  ASSERT_TRUE(labels);
  EXPECT_EQ(*labels, (std::map<std::string, std::string>{{"zone", "a"}, {"disk", "ssd"}}));
  EXPECT_EQ(parse_labels("")->size(), 0U);
  for (const char* bad : {"zone", "=a", "zone=a,zone=b", ","}) EXPECT_FALSE(parse_labels(bad)) << bad;
}

TEST(Resources, AmountsWithUnits) {
  const auto resources = parse_resources("cpu=4,gpu=1,memory=8GiB,fpga=0.5");
  ASSERT_TRUE(resources);
  EXPECT_EQ(*resources, (protocol::Resources{{"cpu", 4}, {"gpu", 1}, {"memory", 8589934592.0}, {"fpga", 0.5}}));
  for (const char* bad : {"cpu", "cpu=", "cpu=x", "cpu=-1", "cpu=1,cpu=2", "memory=8XB", "=1", "cpu=inf", "cpu=nan"}) {
    EXPECT_FALSE(parse_resources(bad)) << bad;
  }
}

TEST(Api, PercentEncodesWhatIsNotPlain) { EXPECT_EQ(percent_encoded("head/a b~%"), "head%2Fa%20b~%25"); }

}  // namespace
}  // namespace weir::cli
