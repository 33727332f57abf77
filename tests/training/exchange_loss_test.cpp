// A rank is lost in the middle of a step: the exchange ends on all others, with errors that name the rank and a bucket.

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/in_process.hpp"
#include "compressors/catalog.hpp"
#include "tests/training/paused_loop.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training {
namespace {

using collectives::Task;
using collectives::TopologyType;
using testing::Pause;
using testing::time_of;

/// Ends a rank as the end of its process does, when so much time has passed since this was posted.
class LoseRank final : public collectives::Loop::Request {
 public:
  LoseRank(collectives::Fabric& victim, double delay) : victim_(victim), delay_(delay) {}

  void run() override {
    losing_.emplace(lose());
    losing_->start();
  }

 private:
  Task<> lose() {
    auto& network = dynamic_cast<collectives::InProcessNetwork&>(victim_.thread().loop());
    auto moment = network.until(network.now() + delay_);
    if (auto come = co_await moment; !come) co_return come.error();
    victim_.lane(0).abort({Errc::cancelled, "its process has ended"}, std::nullopt);  // and with it the other lanes
    co_return Result<void>();
  }

  collectives::Fabric& victim_;
  const double delay_;
  std::optional<Task<>> losing_;
};

compressors::Compression compression_for(const TopologyType& type) {
  const bool by_hops = type.gathers == collectives::Gathers::partners;
  const nlohmann::json none;
  nlohmann::json params;
  if (!by_hops) params["ratio"] = 0.25;
  return compressors::builtin()
      .make({.compressor = by_hops ? "int8" : "topk",
             .params = params,
             .memory = "none",
             .memory_params = none,
             .setting = {}})
      .value();
}

/// Ranks that exchange the gradients of two matrices, each a bucket of its own, and of a vector. A message takes a
/// second; two ranks share a host.
class Job {
 public:
  Job(const TopologyType& type, std::uint32_t size)
      : group_(collectives::in_process_group(size, 3, {.latency_seconds = 1, .ranks_per_host = 2})) {
    const Exchange::Options options{
        .bucket_sizes = {.first_bytes = 100, .bytes = 100},
        .topology = {.name = std::string(type.name), .servers = type.has_servers ? 2U : 0U}};
    for (const auto& fabric : group_) {
      exchanges_.push_back(std::make_unique<Exchange>(gradients_, compression_for(type), *fabric, options));
    }
  }

  collectives::Fabric& fabric(std::uint32_t rank) { return *group_[rank]; }
  collectives::LoopThread& thread() { return group_.front()->thread(); }

  void begin(std::uint32_t rank, std::uint64_t step) {
    exchanges_[rank]->begin({.number = step});
    for (const std::uint32_t i : {2U, 1U, 0U}) exchanges_[rank]->give(i, gradients_[i].tensor);
  }
  /// On all ranks at once, and at the same time what `besides` does.
  void begin_all(std::uint64_t step, collectives::Loop::Request* besides = nullptr) {
    const Pause pause(thread());
    for (std::uint32_t rank = 0; rank < exchanges_.size(); ++rank) begin(rank, step);
    if (besides != nullptr) thread().loop().post(*besides);
  }
  Result<Exchange::Agreed> finish(std::uint32_t rank) { return exchanges_[rank]->finish(); }

 private:
  const std::vector<NamedTensor> gradients_{
      {"first", at::full({64, 32}, 1.5)}, {"second", at::full({32, 16}, 2.5)}, {"bias", at::full({16}, 3.5)}};
  std::vector<std::unique_ptr<collectives::Fabric>> group_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

/// The seconds that a step takes if nobody is lost.
double time_of_a_step(const TopologyType& type, std::uint32_t size) {
  Job job(type, size);
  const double before = time_of(job.thread());
  job.begin_all(0);
  for (std::uint32_t rank = 0; rank < size; ++rank) job.finish(rank).value();
  return time_of(job.thread()) - before;
}

void expect_lost(const TopologyType& type, std::uint32_t size, std::uint32_t victim, double moment) {
  Job job(type, size);
  std::optional<LoseRank> loss;
  loss.emplace(job.fabric(victim), moment);
  job.begin_all(0, &*loss);
  (void)job.finish(victim);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    auto agreed = job.finish(rank);
    if (agreed) {  // what was on its way was enough: the loss is noticed in the next step
      job.begin(rank, 1);
      agreed = job.finish(rank);
    }
    EXPECT_EQ(job.fabric(rank).lost_rank(), victim) << "rank " << rank;
    ASSERT_FALSE(agreed) << "rank " << rank;
    const Error& error = agreed.error();
    EXPECT_EQ(error.code, Errc::peer_lost) << "rank " << rank << ": " << error.message();
    EXPECT_NE(error.context.find("bucket "), std::string::npos) << "rank " << rank << ": " << error.message();
    EXPECT_NE(error.context.find("rank " + std::to_string(victim)), std::string::npos)
        << "rank " << rank << ": " << error.message();
  }
  job.thread().call([&] { loss.reset(); });
}

class ExchangeLosses : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> names_of_topologies() {
  std::vector<std::string> all;
  for (const TopologyType& type : collectives::topologies()) all.emplace_back(type.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Topologies, ExchangeLosses, ::testing::ValuesIn(names_of_topologies()),
                         [](const auto& info) { return info.param; });

TEST_P(ExchangeLosses, WhileAnyMessageIsOnItsWayEndTheStepOfEveryOtherRank) {
  const TopologyType& type = *collectives::find_topology(GetParam());
  const std::uint32_t size = type.fits(6) ? 6 : 4;
  const double seconds = time_of_a_step(type, size);
  ASSERT_GE(seconds, 2) << "there and back";
  for (const std::uint32_t victim : {0U, size - 1}) {
    for (int second = 0; second < seconds; ++second) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " lost in second " + std::to_string(second));
      expect_lost(type, size, victim, second + 0.5);
    }
  }
}

}  // namespace
}  // namespace weir::training
