#include "cluster/job_checkpoints.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/errc.hpp"
#include "tests/cluster/bare_services.hpp"

namespace weir::cluster {
namespace {

constexpr std::uint64_t full = protocol::checkpoint_piece_bytes;

/// The checkpoints of a job of two ranks, to which pieces of shares come that are all zeros, and all the same memory.
class JobCheckpointsTest : public testing::Test {
 protected:
  Result<void> add(std::uint32_t rank, std::uint64_t step, std::uint64_t share_bytes, std::uint64_t offset) {
    const protocol::CheckpointPiece piece{.job_id = "job",
                                          .rank = rank,
                                          .step = step,
                                          .share_bytes = share_bytes,
                                          .offset = offset,
                                          .bytes = zeros_.slice(0, std::min(full, share_bytes - offset))};
    return checkpoints_.add(piece);
  }

  runtime::testing::Simulation simulation_{1};
  Services services_ = bare_services(simulation_);
  JobCheckpoints checkpoints_{services_, "job", 2, 3, {}};
  const Segment zeros_ = Segment::own(Bytes(full));
};

TEST_F(JobCheckpointsTest, AreCompleteWithTheLastPieceOfTheLastShare) {
  EXPECT_TRUE(add(0, 5, 2 * full + 1, 0));
  EXPECT_TRUE(add(1, 5, 10, 0));
  EXPECT_TRUE(add(0, 5, 2 * full + 1, full));
  EXPECT_FALSE(checkpoints_.take(5));
  EXPECT_FALSE(checkpoints_.is_complete(5));
  EXPECT_TRUE(add(0, 5, 2 * full + 1, 2 * full));
  const auto shares = checkpoints_.take(5);
  ASSERT_TRUE(shares);
  ASSERT_EQ(shares->size(), 2u);
  EXPECT_EQ((*shares)[0].size(), 2 * full + 1);
  EXPECT_EQ((*shares)[1].size(), 10u);
  EXPECT_TRUE(checkpoints_.is_complete(5));
  EXPECT_EQ(checkpoints_.newest(), 5u);
  EXPECT_TRUE(add(0, 5, 2 * full + 1, 2 * full)) << "a repeat";
  EXPECT_FALSE(checkpoints_.take(5)) << "they were taken";
}

TEST_F(JobCheckpointsTest, PiecesOfSeveralStepsMayCome) {
  for (const std::uint64_t offset : {std::uint64_t{0}, full}) {
    for (const std::uint64_t step : {5u, 6u}) {
      for (const std::uint32_t rank : {0u, 1u}) EXPECT_TRUE(add(rank, step, 2 * full, offset));
    }
  }
  EXPECT_TRUE(checkpoints_.take(6));
  EXPECT_TRUE(checkpoints_.take(5));
}

TEST_F(JobCheckpointsTest, OfAStepThatNewerOnesReplaceHalfWayTheOtherPiecesAreDropped) {
  EXPECT_TRUE(add(0, 1, 3 * full, 0));
  for (const std::uint64_t step : {2u, 3u, 4u, 5u}) EXPECT_TRUE(add(1, step, 10, 0));  // four wait: step 1 has to go
  EXPECT_TRUE(add(0, 1, 3 * full, full)) << "its rank need not know";
  EXPECT_TRUE(add(0, 1, 3 * full, 2 * full));
  EXPECT_TRUE(add(1, 1, 10, 0));
  EXPECT_FALSE(checkpoints_.take(1));
  EXPECT_FALSE(checkpoints_.is_complete(1));
  for (const std::uint64_t step : {2u, 3u, 4u, 5u}) {
    EXPECT_TRUE(add(0, step, 10, 0));
    EXPECT_TRUE(checkpoints_.take(step)) << step;
  }
}

TEST_F(JobCheckpointsTest, OneThatIsCompleteAtOnceReplacesNoneThatWaits) {
  JobCheckpoints one(services_, "job", 1, 3, {});
  const auto piece = [&](std::uint64_t step, std::uint64_t share_bytes, std::uint64_t offset) {
    return protocol::CheckpointPiece{
        .job_id = "job", .step = step, .share_bytes = share_bytes, .offset = offset, .bytes = zeros_};
  };
  for (const std::uint64_t step : {1u, 2u, 3u, 4u}) EXPECT_TRUE(one.add(piece(step, 2 * full, 0)));
  EXPECT_TRUE(one.add(piece(5, full, 0)));
  EXPECT_TRUE(one.take(5));
  EXPECT_TRUE(one.add(piece(1, 2 * full, full)));
  EXPECT_TRUE(one.take(1));
}

TEST_F(JobCheckpointsTest, ARefusedPieceOpensNoStep) {
  for (const std::uint64_t step : {1u, 2u, 3u, 4u}) EXPECT_TRUE(add(0, step, 10, 0));
  for (std::uint64_t step = 5; step < 20; ++step) {
    EXPECT_EQ(add(0, step, 3 * full, full).error().code, Errc::malformed) << "a gap";
  }
  for (const std::uint64_t step : {1u, 2u, 3u, 4u}) {
    EXPECT_TRUE(add(1, step, 10, 0));
    EXPECT_TRUE(checkpoints_.take(step)) << step;
  }
}

}  // namespace
}  // namespace weir::cluster
