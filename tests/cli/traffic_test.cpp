#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/fake_http.hpp"
#include "tests/cli/run_weir.hpp"

namespace weir::cli {
namespace {

using nlohmann::json;
using namespace weir::cli::testing;

TEST(JobTraffic, IsATableAndJson) {
  const auto counts = [](json object, double sent, const json& received) {
    object["bytes_sent"] = sent;
    object["bytes_received"] = received;
    return object;
  };
  const json traffic = counts({{"job", "J1"},
                               {"links", json::array({counts({{"from", 0}, {"to", 1}}, 2000, nullptr)})},
                               {"phases", json::array({counts({{"name", "pass 1"}}, 2000, 1000)})},
                               {"tensors", json::array({counts({{"name", "fc.weight"}}, 1900, 1000)})},
                               {"rest", counts(json::object(), 100, 0)},
                               {"workers", json::array()}},
                              2000, 1000);
  FakeHttp head([&](const FakeRequest&) { return answer(200, traffic.dump()); });
  const Outcome table = weir({"--address", head.address(), "job", "traffic", "J1"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.out,
            "OF      NAME        SENT    RECEIVED\n"
            "link    0 to 1      2.0 kB  -\n"
            "phase   pass 1      2.0 kB  1.0 kB\n"
            "tensor  fc.weight   1.9 kB  1.0 kB\n"
            "tensor  (the rest)  100 B   0 B\n"
            "all                 2.0 kB  1.0 kB\n");
  EXPECT_EQ(json::parse(weir({"--address", head.address(), "job", "traffic", "J1", "--json"}).out), traffic);
  EXPECT_EQ(head.requests().front().line(), "GET /api/v1/jobs/J1/traffic");
  EXPECT_EQ(weir_at(answer(404, "{}"), {"job", "traffic", "J9"}).code, 3);
}

TEST(JobTraffic, NamesServers) {
  const json traffic = json::parse(R"({
      "links": [{"from": 0, "to": 2, "bytes_sent": 2000, "bytes_received": 2000},
                {"from": 3, "to": 1, "bytes_sent": 1000, "bytes_received": null},
                {"from": 4, "to": 7, "bytes_sent": 80, "bytes_received": 80}],
      "bytes_sent": 3080, "bytes_received": 2080})");
  const json groups = json::parse(R"([{"role": "worker", "count": 2, "each": {"cpu": 1}},
                                      {"role": "server", "count": 2, "each": {"cpu": 1}},
                                      {"role": "state_server", "count": 1, "each": {"cpu": 1}}])");
  FakeHttp head([&](const FakeRequest& request) {
    if (request.has("/traffic ")) return answer(200, traffic.dump());
    return answer(200, json{{"id", "J1"}, {"spec", {{"resources", {{"groups", groups}}}}}}.dump());
  });
  EXPECT_EQ(weir({"--address", head.address(), "job", "traffic", "J1"}).out,
            "OF    NAME                   SENT    RECEIVED\n"
            "link  0 to server 0          2.0 kB  2.0 kB\n"
            "link  server 1 to 1          1.0 kB  -\n"
            "link  the state server to 7  80 B    80 B\n"
            "all                          3.1 kB  2.1 kB\n");
}

TEST(JobTraffic, SaysSinceWhen) {
  int restarts = 0;
  FakeHttp head([&](const FakeRequest& request) {
    if (request.has("/traffic ")) return answer(200, R"({"bytes_sent": 2000, "bytes_received": 1000})");
    return answer(200, json{{"id", "J1"}, {"restarts", restarts}}.dump());
  });
  const auto said = [&] { return weir({"--address", head.address(), "job", "traffic", "J1"}).err; };
  EXPECT_EQ(said(), "");
  restarts = 2;
  EXPECT_EQ(said(), "The job was restarted: this is what was sent since the last restart.\n");
}

TEST(JobTraffic, SaysHowGradientsTravel) {
  const json counts = {{"bytes_sent", 2000}, {"bytes_received", 1000}};
  json traffic = counts;
  traffic["plan"] = json::parse(R"({
      "step": 31, "reason": "the fastest of 2 tried: 152 ms a step\u001b[2J", "on_trial": true,
      "routes": [{"form": "coded", "topology": "butterfly", "buckets": 9, "bytes": 36100000},
                 {"form": "bfloat16", "topology": "two_hop", "buckets": 1, "bytes": 4100}],
      "latency_seconds": 0.00005, "bytes_per_second": 117000000,
      "candidates": [
        {"routes": "coded over butterfly, 9 buckets; bfloat16 over two_hop, 1 bucket",
         "predicted_seconds": 0.15, "measured_seconds": 0.1524, "followed": true},
        {"routes": "float32 over ring, 10 buckets", "predicted_seconds": 1.5, "measured_seconds": null,
         "followed": false}]})");
  const auto printed = [&] { return weir_at(answer(200, traffic.dump()), {"job", "traffic", "J1"}).out; };
  const std::string table =
      "OF   NAME  SENT    RECEIVED\n"
      "all        2.0 kB  1.0 kB\n";
  EXPECT_EQ(printed(), table +
                           "\n"
                           "PLAN          LATENCY  RATE        WHY\n"
                           "from step 31  50 us    117.0 MB/s  the fastest of 2 tried: 152 ms a step\\x1b[2J\n"
                           "\n"
                           "FORM      TOPOLOGY   BUCKETS  BYTES\n"
                           "coded     butterfly  9        36.1 MB\n"
                           "bfloat16  two_hop    1        4.1 kB\n"
                           "\n"
                           "PREDICTED  MEASURED  FOLLOWED  CANDIDATE\n"
                           "150 ms     152 ms    yes       "
                           "coded over butterfly, 9 buckets; bfloat16 over two_hop, 1 bucket\n"
                           "1.5 s      -                   float32 over ring, 10 buckets\n");
  traffic["plan"] = json::parse(R"({
      "step": 1, "reason": "exchange.topology is \"ring\"", "on_trial": false,
      "routes": [{"form": "coded", "topology": "ring", "buckets": 1, "bytes": 4000}],
      "latency_seconds": null, "bytes_per_second": null, "candidates": []})");
  EXPECT_EQ(printed(), table +
                           "\n"
                           "PLAN         LATENCY  RATE  WHY\n"
                           "from step 1  -        -     exchange.topology is \"ring\"\n"
                           "\n"
                           "FORM   TOPOLOGY  BUCKETS  BYTES\n"
                           "coded  ring      1        4.0 kB\n");
  traffic["plan"] = nullptr;
  EXPECT_EQ(printed(), table);
}

}  // namespace
}  // namespace weir::cli
