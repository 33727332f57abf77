// That nothing is lost where a bucket's route changes from owners to gathered payloads, as `auto` lets it.

#include "training/exchange/owners_round.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "collectives/topologies/two_hop.hpp"
#include "collectives/transports/in_process.hpp"
#include "tests/compressors/tensors.hpp"
#include "training/exchange/bucket_round.hpp"

namespace weir::training::testing {
namespace {

using collectives::Task;
using compressors::test::gaussian;

const nlohmann::json params{{"ratio", 0.1}};
const nlohmann::json none;

/// A rank of an exchange of one bucket with one parameter.
class Rank {
 public:
  Rank(const char* memory, std::unique_ptr<collectives::Communicator> group)
      : group_(std::move(group)),
        topology_(*group_),
        compression_(
            compressors::builtin()
                .make({.compressor = "topk", .params = params, .memory = memory, .memory_params = none, .setting = {}})
                .value()),
        parameters_{{"p", at::zeros({40, 5})}},
        means_{{.tensor = at::zeros({40, 5}), .sparse = false, .positions = {}}},
        setting_{.parameters = parameters_,
                 .values = values_,
                 .means = means_,
                 .compression = compression_,
                 .gathered_mean = gathered_mean_,
                 .seed = 5,
                 .ranks = group_->size(),
                 .rank = group_->rank(),
                 .world = group_->size(),
                 .owners = group_->size()},
        round_(setting_, bucket_, /*votes=*/false, /*first_piece=*/1) {}

  Task<> step(std::uint64_t number, bool by_owners, at::Tensor gradient) {
    values_[0] = std::move(gradient);
    round_.begin({.number = number}, {.by_owners = by_owners});
    if (auto done = round_.encode(0); !done) co_return done.error();
    auto& coded = round_.coded();
    const collectives::Subject about{.version = number};
    if (by_owners) {
      auto there = topology_.to_owners(coded.outgoing(), coded.incoming(), about);
      if (auto done = co_await there; !done) co_return done.error();
      if (auto done = coded.combine(); !done) co_return done.error();
      if (auto done = coded.encode_combined(); !done) co_return done.error();
      auto back = topology_.from_owners(coded.combined(), coded.gathered(), about);
      if (auto done = co_await back; !done) co_return done.error();
    } else {
      auto gathering = topology_.all_gather(coded.payload(), coded.gathered(), about);
      if (auto done = co_await gathering; !done) co_return done.error();
    }
    co_return coded.decode(0);
  }

  const at::Tensor& mean() const { return means_[0].tensor; }

 private:
  std::unique_ptr<collectives::Communicator> group_;
  collectives::TwoHop topology_;
  compressors::Compression compression_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> values_{1};
  std::vector<Mean> means_;
  GatheredMean gathered_mean_;
  Bucket bucket_{.parameters = {0}, .coded = true};
  RoundSetting setting_;
  BucketRound round_;
};

class RouteChange : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Memories, RouteChange, ::testing::Values("residual", "dgc"));

TEST_P(RouteChange, SendsWhatTheOwnersHaveLeftOut) {
  constexpr std::uint32_t size = 4;
  const auto network = collectives::InProcessNetwork::make(size);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t r = 0; r < size; ++r)
    ranks.push_back(std::make_unique<Rank>(GetParam(), network->communicator(r)));
  at::Tensor given = at::zeros({40, 5});
  at::Tensor taken = at::zeros({40, 5});
  // Gradients in the first five steps; what is left then is sent in the others.
  for (std::uint64_t number = 0; number < 40; ++number) {
    std::vector<Task<>> tasks;
    for (std::uint32_t r = 0; r < size; ++r) {
      const at::Tensor gradient = number < 5 ? gaussian(200, 10 * number + r).view({40, 5}) : at::zeros({40, 5});
      given += gradient / static_cast<double>(size);
      tasks.push_back(ranks[r]->step(number, /*by_owners=*/number % 10 < 7 && number < 20, gradient));
    }
    for (auto& task : tasks) task.start();
    network->run_while_busy();
    for (auto& task : tasks) task.take_result().value();
    for (const auto& rank : ranks) ASSERT_TRUE(rank->mean().equal(ranks[0]->mean()));
    taken += ranks[0]->mean();
  }
  EXPECT_TRUE(taken.allclose(given, 1e-4, 1e-5)) << (taken - given).abs().max();
}

}  // namespace
}  // namespace weir::training::testing
