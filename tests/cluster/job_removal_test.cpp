// What others ask for while a job is being deleted.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/errc.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

bool remove_a_job(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& one) { return std::holds_alternative<change::RemoveJob>(one); });
}

TEST(JobRemoval, OfTwoAtOnceTheSecondIsRefused) {
  FakeCluster cluster;
  const auto id = cluster.submit_job(1);
  cluster.simulation.run(cluster.head->stop_job(id)).value();
  cluster.store->hold(remove_a_job);
  std::optional<Result<void>> first;
  net::co_spawn(cluster.simulation.executor(), cluster.head->remove_job(id),
                [&first](const std::exception_ptr&, Result<void> removed) { first = std::move(removed); });
  cluster.simulation.settle();
  EXPECT_EQ(cluster.simulation.run(cluster.head->remove_job(id)).error().code, Errc::conflict);
  cluster.store->release();
  ASSERT_TRUE(cluster.simulation.run_until([&first] { return first.has_value(); }));
  EXPECT_TRUE(*first);
  EXPECT_EQ(cluster.simulation.run(cluster.head->remove_job(id)).error().code, Errc::not_found);
}

TEST(JobRemoval, ARefusedOneMayBeTriedAgain) {
  FakeCluster cluster;
  const auto id = cluster.submit_job(1);
  for (int i = 0; i < 2; ++i) {
    const auto refused = cluster.simulation.run(cluster.head->remove_job(id));
    EXPECT_NE(refused.error().context.find("stop it first"), std::string::npos) << refused.error().context;
  }
  cluster.simulation.run(cluster.head->stop_job(id)).value();
  EXPECT_TRUE(cluster.simulation.run(cluster.head->remove_job(id)));
}

TEST(JobRemoval, ARepeatedSubmitOfAJobThatIsBeingDeletedIsToBeRepeatedLater) {
  FakeCluster cluster;
  const auto first = cluster.submit(FakeCluster::spec(1), "key");
  cluster.store->hide(first.job->id);
  const auto again = cluster.simulation.run(cluster.head->submit(FakeCluster::spec(1), "key"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::exhausted);
}

}  // namespace
}  // namespace weir::cluster
