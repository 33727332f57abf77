// Ranks of one job that were given different settings: all of them find out when they join the group, before anything
// else is exchanged, and say which rank differs, and in what.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/catalog.hpp"
#include "ranks.hpp"
#include "training/exchange/auto_plan.hpp"
#include "training/exchange/topology_fit.hpp"
#include "training/replica.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;
using testing::small_job;

/// Ends the exchange of all ranks if it is still there after a minute: what hangs is an error then.
class Deadline {
 public:
  explicit Deadline(testing::Group& group)
      : thread_([this, &group](const std::stop_token& over) {
          std::unique_lock lock(mutex_);
          (void)never_.wait_for(lock, over, std::chrono::minutes(1), [] { return false; });
          if (over.stop_requested()) return;
          for (const auto& fabric : group) fabric->abort({Errc::deadline_exceeded, "the ranks wait for each other"});
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;  ///< last: it uses the others
};

/// How joining ends on each rank if `deviant` has another spec than the others. Ranks 0 and 1 are on one host, 2 and 3
/// on another.
std::vector<Result<void>> join_with(const protocol::JobSpec& spec, const protocol::JobSpec& other,
                                    std::uint32_t deviant, std::uint32_t size = 4) {
  auto group = collectives::in_process_group(size, 3, {.ranks_per_host = 2});
  std::vector<Result<void>> joined(size);
  const Deadline deadline(group);
  run_ranks(size, [&](std::uint32_t rank) {
    auto replica = Replica::make(rank == deviant ? other : spec, rank, size).value();
    joined[rank] = replica->join(*group[rank]);
  });
  return joined;
}

void expect_named(const std::vector<Result<void>>& joined, std::uint32_t deviant, const std::string& what) {
  const std::string named = "the " + what + " of rank " + std::to_string(deviant) + " differ from those of rank " +
                            (deviant == 0 ? "1" : "0");
  for (std::size_t rank = 0; rank < joined.size(); ++rank) {
    ASSERT_FALSE(joined[rank]) << "rank " << rank;
    EXPECT_EQ(joined[rank].error().code, Errc::conflict) << joined[rank].error().message();
    EXPECT_NE(joined[rank].error().message().find(named), std::string::npos) << joined[rank].error().message();
  }
}

/// The topologies that four ranks on processors may have, and which carry the compressor.
std::vector<std::string> topologies_for(const std::string& compressor) {
  const auto made = compressors::builtin().make_compressor(compressor, nullptr).value();
  std::vector<std::string> names{std::string(AutoPlan::name)};
  for (const auto& type : collectives::topologies()) {
    if (!topology_misfit(type, *made)) names.emplace_back(type.name);
  }
  return names;
}

class DisagreementOnTopologies : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Compressors, DisagreementOnTopologies, ::testing::Values("none", "int8"),
                         [](const auto& info) { return info.param; });

TEST_P(DisagreementOnTopologies, IsNamedOnEveryRankForEachPair) {
  const auto names = topologies_for(GetParam());
  EXPECT_GT(names.size(), 5U);
  auto usual = small_job("none");
  usual.compression.compressor = {GetParam(), nlohmann::json::object()};
  for (const std::string& of_most : names) {
    for (const std::string& of_one : names) {
      if (of_one == of_most) continue;
      usual.exchange.topology = of_most;
      auto other = usual;
      other.exchange.topology = of_one;
      for (const std::uint32_t deviant : {0U, 3U}) {  // a leader of its host, and one of those that are led
        SCOPED_TRACE(of_one + " on rank " + std::to_string(deviant) + ", " + of_most + " on the others");
        expect_named(join_with(usual, other, deviant), deviant, "settings of exchange.topology");
      }
    }
  }
}

TEST(Disagreement, OnAnySettingIsFoundBeforeTheFirstStepAndNamed) {
  struct Change {
    std::string what;
    std::function<void(protocol::JobSpec&)> make;
  };
  using Spec = protocol::JobSpec;
  const std::vector<Change> changes{
      {"settings of exchange.bucket_bytes", [](Spec& of) { of.exchange.bucket_bytes *= 2; }},
      {"settings of exchange.servers", [](Spec& of) { of.exchange.servers = 1; }},
      {"settings of compression.compressor",
       [](Spec& of) { of.compression.compressor = small_job("dgc").compression.compressor; }},
      {"settings of compression.compressor", [](Spec& of) { of.compression.compressor.params["ratio"] = 0.1; }},
      {"settings of compression.memory",
       [](Spec& of) {
         of.compression.memory = {"none", nlohmann::json::object()};
       }},
      {"settings of compression.apply_to", [](Spec& of) { of.compression.apply_to = "models"; }},
      {"settings of compression.aggregation", [](Spec& of) { of.compression.aggregation = "weighted"; }},
      {"settings of model", [](Spec& of) { of.model.params["hidden"] = 17; }},
      {"settings of training.mode", [](Spec& of) { of = testing::accumulating(of, 2); }},
      {"settings of training.optimizer", [](Spec& of) { of.training.optimizer.params["momentum"] = 0.5; }},
      {"settings of training.lr_schedule", [](Spec& of) { of.training.lr_schedule.name = "cosine"; }},
      {"settings of training.seed", [](Spec& of) { of.training.seed = 7; }},
      {"settings of training.batch_size", [](Spec& of) { of.training.batch_size = 8; }},
      {"settings of training.epochs", [](Spec& of) { of.training.epochs = 3; }},
      {"settings of training.max_steps", [](Spec& of) { of.training.max_steps = 3; }},
      {"settings of training.clip", [](Spec& of) { of.training.clip.norm = 1; }},
      {"training examples", [](Spec& of) { of.dataset.choice.params["train_examples"] = 520; }},
  };
  const auto usual = small_job("topk");
  for (const auto& [what, make] : changes) {
    auto other = usual;
    make(other);
    for (const std::uint32_t deviant : {0U, 1U}) {
      SCOPED_TRACE(what + ", rank " + std::to_string(deviant));
      expect_named(join_with(usual, other, deviant, 3), deviant, what);
    }
  }
}

}  // namespace
}  // namespace weir::training
