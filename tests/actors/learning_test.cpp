#include <gtest/gtest.h>

#include <filesystem>

#include "actors/modes/mode.hpp"
#include "ranks.hpp"

namespace weir::actors {
namespace {

using testing::run_ranks;

class Losses final : public Progress {
 public:
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const Replica&, const StepRecord& record) override {
    losses.push_back(record.loss);
    return {};
  }
  std::vector<double> losses;
};

TEST(Learning, LeNetLearnsFashionMnistWithDgc) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "needs `apt-get install dataset-fashion-mnist`";
  }
  auto spec = testing::small_job("dgc", 0.001);
  spec.model = {"lenet", {}};
  spec.dataset.choice = {"fashion-mnist", {}};
  spec.training.batch_size = 32;
  spec.training.max_steps = 40;
  spec.training.optimizer = {"sgd", {{"lr", 0.05}, {"momentum", 0.9}}};
  spec.exchange = {.topology = "ring", .transport = "auto", .bucket_bytes = 25 << 20};
  auto group = collectives::in_process_group(2);
  std::vector<Losses> losses(2);
  run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    const auto done = modes().make("sync", nullptr).value()->train(*replica, losses[rank]);
    ASSERT_TRUE(done) << done.error().message();
    replica.reset();
    group[rank]->close();
  });
  const auto& all = losses[0].losses;
  ASSERT_EQ(all.size(), 40u);
  const double last = (all[36] + all[37] + all[38] + all[39]) / 4;
  EXPECT_LT(last, 0.6 * all.front());  // from about 2.3; guessing would stay there
}

}  // namespace
}  // namespace weir::actors
