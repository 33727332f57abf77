// What workers and servers count of the bytes that they move.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "served_job.hpp"
#include "training/servers/messages.hpp"

namespace weir::training {
namespace {

using protocol::ByteCounts;
using protocol::TrafficTotals;
using testing::run_ranks;
using testing::served_job;
using testing::ServedJob;

constexpr std::uint32_t workers = 3;
constexpr std::uint32_t servers_of_job = 2;

ByteCounts sum(const std::vector<protocol::NamedTraffic>& list) {
  ByteCounts all;
  for (const auto& one : list) all += one.bytes;
  return all;
}

ByteCounts phase(const TrafficTotals& totals, const std::string& name) {
  const auto found = std::ranges::find(totals.phases, name, &protocol::NamedTraffic::name);
  return found == totals.phases.end() ? ByteCounts() : found->bytes;
}

/// The same bytes, however they are divided.
void expect_consistent(const TrafficTotals& totals) {
  ByteCounts links;
  for (const auto& link : totals.links) links += link.bytes;
  EXPECT_EQ(links, sum(totals.phases));
  ByteCounts messages = phase(totals, "push");
  messages += phase(totals, "answer");
  ByteCounts tensors = sum(totals.tensors);
  tensors += totals.rest;
  EXPECT_EQ(tensors, messages);
}

/// Of all ranks, when nothing is under way any more and before they leave the group. Looks at them in between, too.
std::vector<TrafficTotals> train(const protocol::JobSpec& spec) {
  ServedJob job(spec, workers);
  job.prepare();
  std::vector<TrafficTotals> totals(job.ranks());
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    job.told[rank]->on_step = [&own = totals[rank], &group = *job.group[rank]](const Replica& replica,
                                                                               const StepRecord& record) {
      EXPECT_TRUE(record.exchanged);
      own = totals_of(group, replica.mode->traffic(replica));
      expect_consistent(own);
      return Result<void>();
    };
  }
  for (std::uint32_t index = 0; index < servers_of_job; ++index) {
    const std::uint32_t rank = workers + index;
    job.told[rank]->on_served = [&server = *job.servers[index], &group = *job.group[rank]](const ServedRecord&) {
      expect_consistent(totals_of(group, server.traffic.get()));
    };
  }
  run_ranks(job.ranks(), [&](std::uint32_t rank) {
    if (rank < workers) return job.run_rank(rank);
    auto& server = *job.servers[rank - workers];
    job.results[rank] = server.serve(*job.told[rank]);
    totals[rank] = totals_of(*job.group[rank], server.traffic.get());
    expect_consistent(totals[rank]);
    job.group[rank]->close();
  });
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    EXPECT_TRUE(job.results[rank]) << "rank " << rank << ": " << job.results[rank].error().message();
  }
  return totals;
}

ByteCounts phase(std::span<const TrafficTotals> ranks, const std::string& name) {
  ByteCounts all;
  for (const auto& totals : ranks) all += phase(totals, name);
  return all;
}

std::map<std::string, ByteCounts> tensors(std::span<const TrafficTotals> ranks) {
  std::map<std::string, ByteCounts> all;
  for (const auto& totals : ranks) {
    for (const auto& [name, bytes] : totals.tensors) all[name] += bytes;
  }
  return all;
}

class ServedTraffic : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};
INSTANTIATE_TEST_SUITE_P(Modes, ServedTraffic,
                         ::testing::Combine(::testing::Values("async", "ssp", "backup"),
                                            ::testing::Values("none", "topk")));

TEST_P(ServedTraffic, IsTheSameOnBothEnds) {
  const auto& [mode, compressor] = GetParam();
  const auto totals = train(served_job(mode, {{"servers", servers_of_job}}, compressor));
  const auto of_workers = std::span(totals).first(workers);
  const auto of_servers = std::span(totals).subspan(workers);
  const auto pushed = phase(of_workers, "push");
  const auto answered = phase(of_workers, "answer");
  EXPECT_GT(pushed.sent, 0U);
  EXPECT_GT(answered.received, 0U);
  EXPECT_EQ(phase(of_servers, "push"), (ByteCounts{0, pushed.sent}));
  EXPECT_EQ(phase(of_servers, "answer"), (ByteCounts{answered.received, 0}));
  const auto by_worker = tensors(of_workers);
  const auto by_server = tensors(of_servers);
  ASSERT_EQ(by_worker.size(), 4U);
  ASSERT_EQ(by_server.size(), 4U);
  for (const auto& [name, bytes] : by_worker) {
    EXPECT_EQ(bytes.received, by_server.at(name).sent) << name;
    if (mode == "backup") {
      EXPECT_GE(bytes.sent, by_server.at(name).received) << name << ": nobody looks into what comes too late";
    } else {
      EXPECT_EQ(bytes.sent, by_server.at(name).received) << name;
    }
  }
}

TEST_P(ServedTraffic, NamesTheLinksBetweenWorkersAndServers) {
  const auto& [mode, compressor] = GetParam();
  const auto totals = train(served_job(mode, {{"servers", servers_of_job}}, compressor));
  for (std::uint32_t rank = 0; rank < totals.size(); ++rank) {
    for (std::uint32_t other = 0; other < totals.size(); ++other) {
      if ((rank < workers) == (other < workers)) continue;
      const auto link = std::ranges::find(totals[rank].links, other, &protocol::LinkTraffic::rank);
      ASSERT_NE(link, totals[rank].links.end()) << rank << " and " << other;
      EXPECT_GT(link->bytes.sent, 0U) << rank << " to " << other;
      EXPECT_GT(link->bytes.received, 0U) << other << " to " << rank;
    }
    const protocol::TrafficReport report{.totals = totals[rank], .sampled = {}, .slowest = {}, .plans = {}};
    EXPECT_TRUE(protocol::check(report, rank, workers + servers_of_job));
  }
}

TEST(ServedBytes, OfATensorThatTravelsAsItIsAreItsValues) {
  const auto spec = served_job("async", {{"servers", servers_of_job}});
  ServedJob job(spec, 1);
  TrafficTotals totals;
  job.told[0]->on_step = [&](const Replica& replica, const StepRecord&) {
    totals = totals_of(*job.group[0], replica.mode->traffic(replica));
    return Result<void>();
  };
  job.run();
  const auto pushes = job.told[0]->records.size();
  ASSERT_GT(pushes, 0U);
  ByteCounts values;
  for (const auto& parameter : job.replicas[0]->model->parameters()) {
    const auto bytes = pushes * parameter.tensor.nbytes();
    const auto found = std::ranges::find(totals.tensors, parameter.name, &protocol::NamedTraffic::name);
    ASSERT_NE(found, totals.tensors.end()) << parameter.name;
    EXPECT_EQ(found->bytes, (ByteCounts{bytes, bytes})) << parameter.name;
    values += found->bytes;
  }
  constexpr std::uint64_t header = collectives::Communicator::frame_header_bytes;
  const std::uint64_t messages = pushes * servers_of_job;
  EXPECT_EQ(phase(totals, "push"), (ByteCounts{values.sent + messages * (header + sizeof(servers::Push)), 0}));
  EXPECT_EQ(phase(totals, "answer"), (ByteCounts{0, values.received + messages * (header + sizeof(servers::Answer))}));
}

}  // namespace
}  // namespace weir::training
