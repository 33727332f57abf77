#include <gtest/gtest.h>
#include <xxhash.h>

#include "actors/modes/mode.hpp"
#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/safetensors.hpp"
#include "ranks.hpp"

namespace weir::actors {
namespace {

using testing::Group;
using testing::run_ranks;
using testing::small_job;
using testing::tcp_group;

/// Hash of all parameters, by step.
using Hashes = std::vector<std::uint64_t>;

class Watcher final : public Progress {
 public:
  bool stop_wanted() const override { return stop_; }
  Result<void> step_done(const Replica& replica, const StepRecord& record) override {
    std::uint64_t hash = 0;
    for (const auto& [name, tensor] : replica.model->parameters()) {
      hash = XXH3_64bits_withSeed(tensor.data_ptr(), tensor.nbytes(), hash);
    }
    hashes.push_back(hash);
    losses.push_back(record.loss);
    EXPECT_EQ(record.step, replica.step);
    EXPECT_EQ(record.step, first + hashes.size());
    if (record.step == stop_after) stop_ = true;
    return {};
  }

  Hashes hashes;
  std::vector<double> losses;
  std::uint64_t first = 0;
  std::uint64_t stop_after = 0;  ///< 0: never

 private:
  bool stop_ = false;
};

/// What a job came to, by rank.
struct Outcome {
  std::vector<Watcher> watchers;
  std::vector<Result<bool>> results;
  std::vector<Segment> shares;
};

Outcome train(const protocol::JobSpec& spec, Group group, const Segment& checkpoint = {},
              std::uint64_t stop_rank_1_after = 0) {
  const auto ranks = static_cast<std::uint32_t>(group.size());
  Outcome outcome{std::vector<Watcher>(ranks), std::vector<Result<bool>>(ranks, false), std::vector<Segment>(ranks)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    if (!checkpoint.empty()) {
      ASSERT_TRUE(replica->restore(checkpoint));
    }
    auto& watcher = outcome.watchers[rank];
    watcher.first = replica->step;
    if (rank == 1) watcher.stop_after = stop_rank_1_after;
    const auto joined = replica->join(*group[rank]);
    ASSERT_TRUE(joined) << joined.error().message();
    outcome.results[rank] = modes().make("sync", nullptr).value()->train(*replica, watcher);
    outcome.shares[rank] = Segment::own(replica->save().value());
    replica.reset();
    group[rank]->close();
  });
  return outcome;
}

class EveryCompressor : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Sync, EveryCompressor, ::testing::Values("none", "topk", "dgc"));

TEST_P(EveryCompressor, ReplicasAreBitIdenticalAfterEveryStepAndLearn) {
  const auto outcome = train(small_job(GetParam()), collectives::in_process_group(4));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.results[rank]) << outcome.results[rank].error().message();
    EXPECT_TRUE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].hashes.size(), 16u);
    EXPECT_EQ(outcome.watchers[rank].hashes, outcome.watchers[0].hashes) << "rank " << rank;
  }
  EXPECT_LT(outcome.watchers[0].losses.back(), 0.7 * outcome.watchers[0].losses.front());
}

TEST_P(EveryCompressor, SocketsGiveTheSameBitsAsMemory) {
  const auto over_tcp = train(small_job(GetParam()), tcp_group(4));
  const auto in_process = train(small_job(GetParam()), collectives::in_process_group(4));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(over_tcp.watchers[rank].hashes, in_process.watchers[rank].hashes) << "rank " << rank;
  }
}

TEST_P(EveryCompressor, AResumedJobEndsWithTheSameBytes) {
  auto spec = small_job(GetParam());
  spec.training.epochs = 2;
  const auto whole = train(spec, collectives::in_process_group(2));
  spec.training.max_steps = 13;  // within an epoch
  const auto half = train(spec, collectives::in_process_group(2));
  const auto checkpoint = Segment::own(protocol::join_checkpoint(half.shares).value());
  spec.training.max_steps.reset();
  const auto resumed = train(spec, collectives::in_process_group(2), checkpoint);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto expected = whole.shares[rank].bytes();
    const auto got = resumed.shares[rank].bytes();
    EXPECT_TRUE(std::ranges::equal(expected, got)) << "rank " << rank;
    const auto& all = whole.watchers[rank].hashes;
    EXPECT_EQ(resumed.watchers[rank].hashes, Hashes(all.begin() + 13, all.end()));
  }
}

protocol::JobSpec residual_job() {
  auto spec = small_job("dgc");
  spec.model = {"resnet20", {{"depth", 8}, {"width", 4}}};
  spec.training.epochs = 1;
  return spec;
}

TEST(Sync, ParametersOfAModelWithRunningStatisticsStayEqualAndTheStatisticsAreEachRanksOwn) {
  const auto outcome = train(residual_job(), collectives::in_process_group(2));
  EXPECT_EQ(outcome.watchers[1].hashes, outcome.watchers[0].hashes);
  const auto first = protocol::read_safetensors(outcome.shares[0]).value();
  const auto second = protocol::read_safetensors(outcome.shares[1]).value();
  const auto* evaluated = first.find("model.norm.running_mean");
  const auto* other = second.find("rank.1.buffers.norm.running_mean");
  ASSERT_TRUE(evaluated != nullptr && other != nullptr);
  EXPECT_FALSE(std::ranges::equal(evaluated->bytes, other->bytes));
}

TEST(Sync, AResumedJobGoesOnWithEachRanksRunningStatistics) {
  auto spec = residual_job();
  const auto whole = train(spec, collectives::in_process_group(2));
  spec.training.max_steps = 7;
  const auto half = train(spec, collectives::in_process_group(2));
  const auto checkpoint = Segment::own(protocol::join_checkpoint(half.shares).value());
  spec.training.max_steps.reset();
  const auto resumed = train(spec, collectives::in_process_group(2), checkpoint);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes())) << "rank " << rank;
  }
}

TEST(Sync, AllRanksStopAtTheStepTheyAgreeOn) {
  const auto outcome = train(small_job("dgc"), collectives::in_process_group(4), {}, 5);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.results[rank]);
    EXPECT_FALSE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].hashes.size(), 6u);
  }
}

TEST(Sync, OneRankTrainsAlone) {
  const auto outcome = train(small_job("dgc"), collectives::in_process_group(1));
  ASSERT_TRUE(outcome.results[0]) << outcome.results[0].error().message();
  EXPECT_TRUE(*outcome.results[0]);
}

TEST(Sync, ALossThatIsNoNumberEndsTheTrainingWithACause) {
  auto spec = small_job("none");
  spec.training.optimizer.params["lr"] = 1e30;
  const auto outcome = train(spec, collectives::in_process_group(2));
  for (const auto& result : outcome.results) ASSERT_FALSE(result);
  const auto diverged = std::ranges::any_of(outcome.results, [](const Result<bool>& result) {
    return result.error().context.find("the training diverged") != std::string::npos;
  });
  EXPECT_TRUE(diverged) << outcome.results[0].error().message();
}

TEST(Sync, APeerThatLeavesEndsTheStepAtOnce) {
  auto group = collectives::in_process_group(2);
  const auto spec = small_job("topk");
  Result<bool> result = true;
  run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    Watcher watcher;
    if (rank == 0) {
      result = modes().make("sync", nullptr).value()->train(*replica, watcher);
    } else {
      replica.reset();
      group[rank].reset();
    }
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::peer_lost);
  EXPECT_EQ(group[0]->lost_rank(), 1u);
}

TEST(Sync, RanksThatStartDifferentlyAreToldSo) {
  auto group = collectives::in_process_group(2);
  run_ranks(2, [&](std::uint32_t rank) {
    auto spec = small_job("none");
    spec.training.seed = rank;
    auto replica = Replica::make(spec, rank, 2).value();
    const auto joined = replica->join(*group[rank]);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, Errc::conflict);
  });
}

TEST(Replica, RefusesCheckpointsOfOtherJobs) {
  const auto spec = small_job("dgc");
  const auto outcome = train(spec, collectives::in_process_group(2));
  const auto checkpoint = Segment::own(protocol::join_checkpoint(outcome.shares).value());
  const auto refusal = [&](const protocol::JobSpec& other, std::uint32_t world, const Segment& file) {
    return Replica::make(other, 0, world).value()->restore(file).error().code;
  };
  EXPECT_EQ(refusal(spec, 3, checkpoint), Errc::conflict);
  auto larger = spec;
  larger.model.params["hidden"] = 17;
  EXPECT_EQ(refusal(larger, 2, checkpoint), Errc::conflict);
  EXPECT_EQ(refusal(spec, 2, Segment::own(Bytes(100))), Errc::malformed);
  EXPECT_EQ(refusal(spec, 2, outcome.shares[0]), Errc::conflict);
}

}  // namespace
}  // namespace weir::actors
