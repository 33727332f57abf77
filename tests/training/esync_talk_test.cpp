// What a worker tells the state server.

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "esync_job.hpp"

namespace weir::training {
namespace {

using testing::esync_job;
using testing::Watcher;

/// Notes what it is told; a link that carries a thousand bytes in a second.
class Notes final : public StepGrants {
 public:
  explicit Notes(std::vector<WorkerState>& told) : told_(told) {}
  Result<Grant> more(const WorkerState& state, std::uint64_t job_step) override {
    EXPECT_EQ(job_step, 4 * state.round);
    told_.push_back(state);
    return Grant{.steps = state.steps > 0 ? 0U : 4U};
  }
  Result<void> leave(std::uint64_t job_step, bool finished) override {
    EXPECT_EQ(job_step, 8U);
    EXPECT_TRUE(finished);
    return {};
  }
  double link_bytes_per_second() const override { return 1000; }

 private:
  std::vector<WorkerState>& told_;
};

TEST(ESync, TellsTheStateServerWhatAWorkerMeasures) {
  auto spec = esync_job("none");
  spec.training.max_steps = 8;
  auto group = collectives::in_process_group(2);
  std::vector<std::vector<WorkerState>> told(2);
  std::vector<Watcher> watchers(2);
  std::vector<std::uint64_t> sent(2);
  testing::run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    double shown = 0;  // a clock that shows a second more each time it is asked
    replica->mode = std::make_unique<ESync>(
        ESync::Options(),
        ESync::Instruments{.now = [&shown] { return shown++; }, .grants = std::make_unique<Notes>(told[rank])});
    replica->join(*group[rank]).value();
    watchers[rank].after_step = [&, rank](std::uint64_t step) {
      if (step == 4) sent[rank] = group[rank]->traffic().sent_bytes;
    };
    EXPECT_TRUE(replica->mode->train(*replica, watchers[rank]).value());
    replica.reset();
    group[rank]->close();
  });
  for (const std::uint32_t rank : {0U, 1U}) {
    ASSERT_EQ(told[rank].size(), 4U) << "two questions in each of two rounds";
    const auto& first = told[rank][0];
    EXPECT_EQ(std::tuple(first.round, first.steps, first.left), std::tuple(0U, 0U, 16U));
    EXPECT_EQ(first.step_seconds + first.encode_seconds + first.link_seconds, 0) << "nothing is known";
    const auto& after = told[rank][1];
    EXPECT_EQ(std::tuple(after.round, after.steps, after.left), std::tuple(0U, 4U, 16U));
    EXPECT_EQ(after.step_seconds, 0.25);
    const auto& second = told[rank][2];
    EXPECT_EQ(std::tuple(second.round, second.steps, second.left), std::tuple(1U, 0U, 8U));
    EXPECT_GT(second.link_seconds, 1.0) << "the model has more than a thousand bytes";
    EXPECT_LE(second.link_seconds, static_cast<double>(sent[rank]) / 1000);
    const auto& record = watchers[rank].records[0];
    EXPECT_EQ(record.local_steps, 4U);
    EXPECT_GE(record.times.wait, 3) << "for two answers and for the sum";
    EXPECT_NEAR(record.seconds - record.times.wait, record.compute_seconds, 1e-9);
  }
}

TEST(ESync, TakesTheRateOfASlowLinkFromTheJob) {
  auto spec = esync_job("topk", {{"adapt_compression", true}});
  spec.training.max_steps = 4;
  spec.training.conditions.link_rate = {"none", "1kbit"};
  std::vector<std::uint64_t> sent(2);
  testing::EsyncJob job(spec, 2);
  job.run([&](std::uint32_t rank) -> Result<bool> {
    if (rank == 2) return job.serve();
    auto replica = Replica::make(spec, rank, 2, 1).value();
    if (auto joined = replica->join(*job.group[rank]); !joined) return joined.error();
    sent[rank] = job.group[rank]->traffic().sent_bytes;
    return replica->mode->train(*replica, job.watchers[rank]);
  });
  for (const auto& result : job.results) EXPECT_TRUE(result) << result.error().message();
  EXPECT_LT(sent[1] + (4 << 10), sent[0]) << "only the other has measured its link";
}

}  // namespace
}  // namespace weir::training
