// How many messages one after the other stand between the last gradient of a step and its mean.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/in_process.hpp"
#include "tests/training/paused_loop.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training {
namespace {

using collectives::TopologyType;
using testing::Pause;
using testing::time_of;

constexpr std::uint32_t ranks = 64;
constexpr std::uint32_t lanes = 3;  // of which the votes and the small tensors have one for themselves

compressors::Compression dgc() {
  const nlohmann::json params{{"ratio", 0.01}, {"warmup_epochs", 0}};
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = "dgc", .params = params, .memory = {}, .memory_params = none, .setting = {.momentum = 0.9}})
      .value();
}

compressors::Compression qsgd() {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = "qsgd", .params = none, .memory = "none", .memory_params = none, .setting = {}})
      .value();
}

using MakeCompression = compressors::Compression (*)();

/// A model of some matrices, each a bucket of its own and large enough to go sparse, and a vector, on one of the ranks.
class Model {
 public:
  Model(std::size_t matrices, collectives::Fabric& fabric, const Exchange::Options& options, MakeCompression make) {
    for (std::size_t i = 0; i < matrices; ++i) {
      tensors_.push_back({"matrix " + std::to_string(i), at::ones({100, 100})});
    }
    tensors_.push_back({"bias", at::ones({20})});
    exchange_ = std::make_unique<Exchange>(tensors_, make(), fabric, options);
  }

  Exchange& exchange() { return *exchange_; }
  void give_all() {
    for (auto i = static_cast<std::uint32_t>(tensors_.size()); i-- > 0;) {
      exchange_->give(i, torch::randn(tensors_[i].tensor.sizes()));
    }
  }

 private:
  std::vector<NamedTensor> tensors_;
  std::unique_ptr<Exchange> exchange_;
};

/// The latencies that pass between the moment when all gradients are there and the end of a step, on a network whose
/// links have no other cost.
double hops_of_a_step(const Exchange::Options& options, std::size_t matrices, std::uint32_t ranks_per_host = 1,
                      MakeCompression make = dgc) {
  auto group = collectives::in_process_group(ranks, lanes, {.latency_seconds = 1, .ranks_per_host = ranks_per_host});
  collectives::LoopThread& thread = group[0]->thread();
  std::vector<std::unique_ptr<Model>> models;
  for (auto& fabric : group) models.push_back(std::make_unique<Model>(matrices, *fabric, options, make));

  {
    // Before the first step the ranks may have to agree on a plan.
    std::vector<std::jthread> threads;
    for (auto& model : models) {
      threads.emplace_back([&model] {
        model->exchange().begin({.number = 0});
        model->give_all();
        model->exchange().finish().value();
      });
    }
  }
  const double before = time_of(thread);
  {
    const Pause pause(thread);
    for (auto& model : models) {
      model->exchange().begin({.number = 1});
      model->give_all();
    }
  }
  for (auto& model : models) {
    if (auto agreed = model->exchange().finish(); !agreed) throw std::runtime_error(agreed.error().message());
  }
  return time_of(thread) - before;
}

/// Each matrix a bucket of its own.
Exchange::Options each_its_bucket(const std::string& topology, std::uint32_t servers = 0) {
  return {.bucket_sizes = {.first_bytes = 1, .bytes = 1}, .topology = {.name = topology, .servers = servers}};
}

/// What a job gets that leaves the topology to its workers, which measure these links.
Exchange::Options automatic(const GroupLinks& links) {
  Exchange::Options options{.bucket_sizes = {}, .topology = {.name = "auto"}};
  options.make_compression = []() -> Result<compressors::Compression> { return dgc(); };
  options.measure_links = [links](collectives::Fabric&) { return links; };
  return options;
}

class Hops : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> topologies_without_owners() {
  std::vector<std::string> all;
  for (const TopologyType& type : collectives::topologies()) {
    if (!type.by_owners()) all.emplace_back(type.name);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Exchange, Hops, ::testing::ValuesIn(topologies_without_owners()),
                         [](const auto& info) { return info.param; });

TEST_P(Hops, OfAStepAreThoseOfTheLongestLane) {
  const TopologyType& type = *collectives::find_topology(GetParam());
  // The buckets of a lane are gathered one after the other, in log2(64) = 6 hops each.
  const double gather = type.all_gather_cost(ranks, 0).alpha;
  EXPECT_EQ(gather, std::countr_zero(ranks));
  // Beside them the votes and the vector are summed: with coded buckets over a ring, along a tree.
  const TopologyType& of_sums = GetParam() == "ring" ? *collectives::find_topology("tree") : type;
  const double sum = of_sums.all_reduce_cost(ranks, 84).alpha;
  for (const std::size_t matrices : {2, 6}) {
    const double in_a_lane = static_cast<double>(matrices) / (lanes - 1);
    const double hops = hops_of_a_step(each_its_bucket(GetParam()), matrices);
    EXPECT_NEAR(hops, std::max(in_a_lane * gather, sum), 1) << matrices << " matrices";
    EXPECT_LE(hops, 3 * gather) << matrices << " matrices";  // of six, 18
  }
}

/// A topology that takes what dgc chooses straight to owners, and how many of the ranks own something.
struct Owners {
  std::string topology;
  std::uint32_t servers = 0;  ///< 0: all ranks

  friend void PrintTo(const Owners& owners, std::ostream* out) { *out << owners.topology; }
};

class HopsByOwners : public ::testing::TestWithParam<Owners> {};

INSTANTIATE_TEST_SUITE_P(Exchange, HopsByOwners,
                         ::testing::Values(Owners{"two_hop"}, Owners{"split_gather"}, Owners{"parameter_server", 4}),
                         [](const auto& info) { return info.param.topology; });

// However many ranks there are: a hop to the owners and one from them, one bucket of a lane after the other. The votes
// and the vector take two hops beside them.
TEST_P(HopsByOwners, OfAStepAreTwoForEachBucketOfALane) {
  const auto& [topology, servers] = GetParam();
  const TopologyType& type = *collectives::find_topology(topology);
  EXPECT_EQ(type.by_owners_cost(ranks, 0).alpha, 2);
  EXPECT_EQ(type.all_reduce_cost(ranks, 84).alpha, 2);
  for (const std::size_t matrices : {2, 4}) {
    const double in_a_lane = static_cast<double>(matrices) / (lanes - 1);
    EXPECT_NEAR(hops_of_a_step(each_its_bucket(topology, servers), matrices), 2 * in_a_lane, 0.01)
        << matrices << " matrices";
  }
}

// Six hops to the owners and six from them, one bucket of a lane after the other.
TEST(HopsOfAJob, AreTwoForEachDoublingWhereSumsAreEncodedAnew) {
  const double hops = collectives::find_topology("multi_hop")->by_owners_cost(ranks, 0).alpha;
  EXPECT_EQ(hops, 2 * std::countr_zero(ranks));
  for (const std::size_t matrices : {2, 4}) {
    const double in_a_lane = static_cast<double>(matrices) / (lanes - 1);
    EXPECT_NEAR(hops_of_a_step(each_its_bucket("multi_hop"), matrices, 1, qsgd), in_a_lane * hops, 1) << matrices;
  }
}

constexpr std::uint32_t ranks_per_host = 4;
constexpr std::uint32_t hosts = ranks / ranks_per_host;
constexpr LinkCosts link{.latency_seconds = 1, .seconds_per_byte = 1e-6};
constexpr double hops_max = 3.0 * std::countr_zero(ranks);

TEST(HopsOfAJob, AreFewWhereTheWorkersChoose) {
  for (const std::size_t matrices : {2, 6}) {
    EXPECT_LE(hops_of_a_step(automatic({.links = link, .hosts = {}}), matrices), hops_max) << matrices;
  }
}

TEST(HopsOfAJob, AreFewWhereTheWorkersChooseOnHostsThatTheyShare) {
  const SharedHosts shared{.count = hosts, .ranks_max = ranks_per_host, .ends_max = 1, .links = link};
  for (const std::size_t matrices : {2, 6}) {
    EXPECT_LE(hops_of_a_step(automatic({.links = link, .hosts = shared}), matrices, ranks_per_host), hops_max)
        << matrices;
  }
}

// Up a tree within the host, between hosts, and down: while a bucket is on its way down, the next is between hosts.
TEST(HopsOfAJob, AreFewOnHostsThatWorkersShare) {
  for (const std::size_t matrices : {2, 6}) {
    EXPECT_LE(hops_of_a_step(each_its_bucket("hierarchical"), matrices, ranks_per_host), hops_max) << matrices;
    EXPECT_LE(hops_of_a_step(each_its_bucket("ring"), matrices, ranks_per_host), hops_max) << matrices;
  }
}

}  // namespace
}  // namespace weir::training
