// What fails in a job with a state server: who notices, and what it is told.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "base/errc.hpp"
#include "esync_job.hpp"

namespace weir::training {
namespace {

using testing::esync_job;
using testing::EsyncJob;
using testing::Watcher;

TEST(ESync, ALostWorkerEndsAllRanks) {
  EsyncJob job(testing::endless_job(), 3);
  job.watchers[1].after_step = [&](std::uint64_t) { throw std::runtime_error("killed"); };
  job.run([&](std::uint32_t rank) -> Result<bool> {
    if (rank != 1) return job.run_rank(rank);
    try {
      return job.run_rank(rank);
    } catch (const std::runtime_error&) {
      job.group[rank].reset();
      return true;
    }
  });
  for (const std::uint32_t rank : {0U, 2U, 3U}) {
    ASSERT_FALSE(job.results[rank]) << rank;
    EXPECT_EQ(job.results[rank].error().code, Errc::peer_lost) << job.results[rank].error().message();
    EXPECT_EQ(job.group[rank]->lost_rank(), 1U);
  }
}

TEST(ESync, ALostStateServerEndsAllRanks) {
  EsyncJob job(testing::endless_job(), 3);
  job.run([&](std::uint32_t rank) { return rank == 3 ? job.serve(2) : job.work(rank); });
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    ASSERT_FALSE(job.results[rank]) << rank;
    EXPECT_EQ(job.results[rank].error().code, Errc::peer_lost) << job.results[rank].error().message();
    EXPECT_EQ(job.group[rank]->lost_rank(), 3U);
  }
}

/// Grants what it should not.
class Excessive final : public StepGrants {
 public:
  explicit Excessive(std::uint64_t steps) : steps_(steps) {}
  Result<Grant> more(const WorkerState&, std::uint64_t) override { return Grant{.steps = steps_}; }
  Result<void> leave(std::uint64_t, bool) override { return {}; }

 private:
  const std::uint64_t steps_;
};

TEST(ESync, AStateServerThatGrantsTooMuchOrNothingIsRefused) {
  for (const std::uint64_t steps : {std::uint64_t{0}, std::uint64_t{1'000'000}}) {
    auto group = collectives::in_process_group(1);
    auto replica = Replica::make(esync_job("none"), 0, 1).value();
    replica->mode = std::make_unique<ESync>(
        ESync::Options(), ESync::Instruments{.now = {}, .grants = std::make_unique<Excessive>(steps)});
    replica->join(*group[0]).value();
    Watcher watcher;
    const auto result = replica->mode->train(*replica, watcher);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::malformed);
    EXPECT_NE(result.error().message().find("the state server grants"), std::string::npos);
  }
}

TEST(ESync, RefusesWhatDoesNotFitDifferences) {
  auto spec = esync_job("none");
  spec.compression.compressor = {"signsgd", {}};
  EXPECT_NE(testing::refusal(spec).find("majority"), std::string::npos) << testing::refusal(spec);
  spec.compression.compressor = {"dgc", {}};
  spec.compression.memory = {"dgc", {}};
  EXPECT_NE(testing::refusal(spec).find("differences"), std::string::npos);
  EXPECT_EQ(testing::refusal(esync_job("topk")), "");
}

}  // namespace
}  // namespace weir::training
