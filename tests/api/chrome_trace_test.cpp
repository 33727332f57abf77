#include "api/chrome_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weir::api {
namespace {

using nlohmann::json;
using protocol::Activity;
using protocol::BucketSpan;
using Place = std::pair<std::uint32_t, std::uint32_t>;  ///< process and thread

cluster::WorkerTraffic worker(std::uint32_t rank, std::vector<BucketSpan> spans) {
  cluster::WorkerTraffic traffic;
  traffic.worker = rank;
  traffic.sampled = protocol::StepTimeline{.step = 7, .seconds = 1, .dropped = 0, .spans = std::move(spans)};
  return traffic;
}

BucketSpan span(std::uint32_t bucket, Activity activity, std::uint32_t lane, double begin, double seconds) {
  return {.bucket = bucket, .activity = activity, .lane = lane, .begin_seconds = begin, .seconds = seconds};
}

Place place_of(const json& event) {
  return {event.at("pid").get<std::uint32_t>(), event.at("tid").get<std::uint32_t>()};
}

/// What the Trace Event Format asks for, and what Perfetto asks for beyond it: names before all else; events by time;
/// complete events of a thread that do not overlap; each begin of an asynchronous event with its end.
void expect_well_formed(const json& trace) {
  std::map<Place, std::string> threads;
  std::set<std::uint32_t> processes;
  std::map<Place, std::int64_t> busy_until;
  std::map<std::string, json> begun;
  std::int64_t before = 0;
  bool named = false;
  for (const json& event : trace.at("traceEvents")) {
    const Place place = place_of(event);
    EXPECT_GT(place.first, 0u) << event;
    EXPECT_GT(place.second, 0u) << event;
    ASSERT_TRUE(event.at("name").is_string()) << event;
    const std::string ph = event.at("ph");
    if (ph == "M") {
      EXPECT_FALSE(named) << "after other events: " << event;
      const std::string name = event.at("args").at("name");
      if (event.at("name") == "process_name") {
        EXPECT_TRUE(processes.insert(place.first).second) << event;
      } else {
        EXPECT_EQ(event.at("name"), "thread_name");
        EXPECT_TRUE(threads.emplace(place, name).second) << event;
      }
      continue;
    }
    named = true;
    EXPECT_TRUE(processes.contains(place.first)) << event;
    EXPECT_TRUE(threads.contains(place)) << event;
    EXPECT_TRUE(event.at("cat").is_string()) << event;
    ASSERT_TRUE(event.at("ts").is_number_integer()) << event;
    const std::int64_t begin = event.at("ts");
    EXPECT_GE(begin, before) << event;
    before = begin;
    if (ph == "X") {
      ASSERT_TRUE(event.at("dur").is_number_integer()) << event;
      const std::int64_t length = event.at("dur");
      EXPECT_GE(length, 0) << event;
      EXPECT_GE(begin, busy_until[place]) << event;
      busy_until[place] = begin + length;
    } else if (ph == "b") {
      EXPECT_TRUE(begun.emplace(event.at("id").get<std::string>(), event).second) << event;
    } else {
      ASSERT_EQ(ph, "e") << event;
      const auto begin_event = begun.extract(event.at("id").get<std::string>());
      ASSERT_TRUE(begin_event) << "an end without a begin: " << event;
      for (const char* part : {"name", "cat", "pid", "tid"}) EXPECT_EQ(event.at(part), begin_event.mapped().at(part));
    }
  }
  EXPECT_TRUE(begun.empty());
}

std::map<Place, std::string> threads_of(const json& trace) {
  std::map<Place, std::string> threads;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name")
      threads.emplace(place_of(event), event.at("args").at("name").get<std::string>());
  }
  return threads;
}

TEST(ChromeTrace, IsWellFormedAndByTime) {
  const auto spans = [](double late) {
    return std::vector{span(0, Activity::encode, 0, late + 0.01, 0.01),   span(0, Activity::wait, 1, late + 0.02, 0.01),
                       span(0, Activity::wire, 1, late + 0.03, 0.02),     span(0, Activity::wait, 1, late + 0.05, 0.01),
                       span(0, Activity::decode, 0, late + 0.06, 0.01),   span(1, Activity::encode, 0, late, 0.01),
                       span(1, Activity::wait, 0, late + 0.01, 0.05),     span(1, Activity::wire, 0, late + 0.06, 0.02),
                       span(1, Activity::decode, 0, late + 0.08, 0.000'1)};
  };
  const std::vector workers{worker(0, spans(0)), worker(3, spans(0.005))};
  const auto trace = chrome_trace("j1", workers, TraceStep::sampled);
  expect_well_formed(trace);
  EXPECT_EQ(threads_of(trace), (std::map<Place, std::string>{{{1, 1}, "encoder"},
                                                             {{1, 2}, "decoder"},
                                                             {{1, 3}, "lane 0"},
                                                             {{1, 4}, "lane 1"},
                                                             {{4, 1}, "encoder"},
                                                             {{4, 2}, "decoder"},
                                                             {{4, 3}, "lane 0"},
                                                             {{4, 4}, "lane 1"}}));
}

TEST(ChromeTrace, WhatIsEncodedWhileSomethingIsDecodedIsBesideIt) {
  const std::vector workers{
      worker(0, {span(0, Activity::decode, 0, 0.1, 0.2), span(1, Activity::encode, 0, 0.15, 0.1),
                 span(2, Activity::encode, 0, 0.25, 0.1), span(1, Activity::decode, 0, 0.3, 0.1)})};
  const auto trace = chrome_trace("j1", workers, TraceStep::sampled);
  expect_well_formed(trace);
  EXPECT_EQ(threads_of(trace).size(), 3u) << "encoder, decoder and lane 0";
}

TEST(ChromeTrace, WhatFollowsOnSomethingDoesNotOverlapItInWholeMicroseconds) {
  std::vector<BucketSpan> spans;
  for (std::uint32_t i = 0; i < 100; ++i) spans.push_back(span(i, Activity::encode, 0, 0.000'001'6 * i, 0.000'001'6));
  const auto trace = chrome_trace("j1", std::vector{worker(0, spans)}, TraceStep::sampled);
  expect_well_formed(trace);
  EXPECT_EQ(threads_of(trace).size(), 3u) << "encoder, decoder and lane 0: one thread was enough for all";
  const json last = trace.at("traceEvents").back();
  EXPECT_EQ(last.at("ts").get<int>() + last.at("dur").get<int>(), 160) << "nor is anything lost";
}

TEST(ChromeTrace, WhatALaneCarriesAtTheSameTimeIsOnFurtherThreads) {
  const std::vector workers{worker(0, {span(0, Activity::wire, 1, 0.1, 0.2), span(1, Activity::wire, 1, 0.2, 0.2),
                                       span(2, Activity::wire, 1, 0.25, 0.5), span(3, Activity::wire, 1, 0.4, 0.1)})};
  const auto trace = chrome_trace("j1", workers, TraceStep::sampled);
  expect_well_formed(trace);
  EXPECT_EQ(threads_of(trace), (std::map<Place, std::string>{{{1, 1}, "encoder"},
                                                             {{1, 2}, "decoder"},
                                                             {{1, 3}, "lane 0"},
                                                             {{1, 4}, "lane 1"},
                                                             {{1, 104}, "lane 1 (2)"},
                                                             {{1, 204}, "lane 1 (3)"}}));
  std::map<int, std::uint32_t> places;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") places[event.at("args").at("bucket").get<int>()] = place_of(event).second;
  }
  EXPECT_EQ(places, (std::map<int, std::uint32_t>{{0, 4}, {1, 104}, {2, 204}, {3, 4}})) << "the first that is free";
}

}  // namespace
}  // namespace weir::api
