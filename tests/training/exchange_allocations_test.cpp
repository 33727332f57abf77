// Counts what the exchange takes from the heap in a round: on the threads that carry it, nothing, once everything has
// its size. The threads that compute gradients are not counted, LibTorch's memory for tensors is not either.
//
// When everything has its size depends on the data (a round may select more than all before it) and on time (messages
// that arrive early are held), so the test waits for a number of rounds in a row that take nothing. Something that
// every round takes, or every tenth, leaves no such number however many rounds there are.
//
// With `auto` that is so once all plans have been tried: another plan has other buckets, and what ranks agree on at the
// end of a window of steps takes a few pieces, every tenth round while plans are on trial and every 64th from then on.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/hierarchical.hpp"
#include "collectives/topologies/ring.hpp"
#include "ranks.hpp"
#include "training/exchange/auto_plan.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/gradient_trigger.hpp"
#include "training/exchange/topology_fit.hpp"

namespace {

std::atomic<bool> counting = false;
std::atomic<std::uint64_t> allocations = 0;
thread_local bool computes_gradients = false;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting && !computes_gradients) ++allocations;
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace weir::training {
namespace {

constexpr std::uint32_t usual_ranks = 3;
constexpr std::uint64_t quiet_rounds = 20;  ///< in a row, that must take nothing
constexpr std::uint64_t most_rounds = 1000;

struct Case {
  std::string compressor;
  nlohmann::json params;
  bool shared_memory = false;
  std::string topology = "ring";
  std::int64_t side = 100;      ///< of the tensors: 3 x 2, 2 and 2 x 1 times that
  std::uint64_t allowance = 0;  ///< how much a quiet round may take, on all ranks
  std::uint32_t ranks = usual_ranks;
  std::uint32_t ranks_per_host = 4;
};

std::string text(const Case& of) {
  std::string text = of.compressor;
  for (const auto& [key, value] : of.params.items()) {
    if (value.is_string()) text += "_" + value.get<std::string>();
  }
  if (of.ranks_per_host < of.ranks) text += "_hosts_of_" + std::to_string(of.ranks_per_host);
  return text + "_" + of.topology + (of.shared_memory ? "_shared_memory" : "_tcp");
}

void PrintTo(const Case& of, std::ostream* out) { *out << text(of); }

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return text(info.param); }

compressors::Compression compression(const Case& of) {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = of.compressor,
             .params = of.params,
             .memory = {},
             .memory_params = none,
             .setting = {.momentum = 0.9}})
      .value();
}

class Allocations : public ::testing::TestWithParam<Case> {};

/// With which a compressor does from the first step on what it does in most of them.
nlohmann::json params_without_warmup(const std::string& compressor) {
  if (compressor == "dgc" || compressor == "chunk") return {{"warmup_epochs", 0}};
  if (compressor == "powersgd") return {{"start_step", 0}};
  return nullptr;
}

/// The singular vectors come from LibTorch's linalg_eigh, which takes its workspace, its results and each view of a
/// matrix anew; there is no other way from here to LAPACK. That is a fixed number of pieces for each of a rank's two
/// matrices, 51 with LibTorch 1.13. These are small, because the time grows with the third power of their side.
Case singular_vectors() {
  constexpr std::uint64_t pieces = 60;
  return {.compressor = "atomo", .params = {{"atoms", "svd"}}, .side = 20, .allowance = 2 * pieces * usual_ranks};
}

/// Every compressor over a ring, and over every topology some that go through it in different ways.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& entry : compressors::builtin().compressors()) {
    if (entry.name == "atomo") {
      all.push_back(singular_vectors());
      for (const std::string atoms : {"entrywise", "dct"}) {
        all.push_back({.compressor = "atomo", .params = {{"atoms", atoms}}});
      }
    } else {
      all.push_back({.compressor = entry.name, .params = params_without_warmup(entry.name)});
    }
  }
  for (const auto& type : collectives::topologies()) {
    for (const std::string compressor : {"none", "qsgd", "dgc"}) {
      Case of{compressor, params_without_warmup(compressor), false, std::string(type.name)};
      of.ranks = type.fits(usual_ranks) ? usual_ranks : usual_ranks + 1;
      const bool fits = !topology_misfit(type, *compression(of).compressor);
      if (fits && type.name != collectives::Ring::name) all.push_back(of);
    }
  }
  // Where coded buckets pass by the leaders of hosts, and where the ranks choose how each bucket travels.
  for (const std::string compressor : {"none", "qsgd", "dgc"}) {
    Case of{.compressor = compressor, .params = params_without_warmup(compressor)};
    of.topology = AutoPlan::name;
    all.push_back(of);
    of.ranks = 4;
    of.ranks_per_host = 2;
    all.push_back(of);
    of.topology = collectives::Hierarchical::name;
    all.push_back(of);
  }
  for (const std::string compressor : {"none", "dgc"}) {
    all.push_back({.compressor = compressor, .params = params_without_warmup(compressor), .shared_memory = true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Exchange, Allocations, ::testing::ValuesIn(cases()), name_of);

TEST_P(Allocations, AreNoneInARound) {
  const std::uint32_t ranks = GetParam().ranks;
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) hosts.push_back(rank / GetParam().ranks_per_host);
  auto group = testing::mesh_group(hosts, GetParam().shared_memory);
  std::uint64_t quiet = 0;  // rounds in a row that took no more than they may
  std::uint64_t latest = 0;
  // Between two rounds no rank has anything under way: what was counted until here is the round's.
  std::barrier between(ranks, [&]() noexcept {
    latest = allocations.exchange(0);
    quiet = latest <= GetParam().allowance ? quiet + 1 : 0;
  });
  testing::run_ranks(ranks, [&](std::uint32_t rank) {
    computes_gradients = true;
    at::set_num_threads(1);
    const std::int64_t side = GetParam().side;
    const std::vector<NamedTensor> parameters{{"first", at::ones({3 * side, 2 * side}).set_requires_grad(true)},
                                              {"bias", at::ones({2 * side}).set_requires_grad(true)},
                                              {"second", at::ones({2 * side, side}).set_requires_grad(true)}};
    Exchange exchange(parameters, compression(GetParam()), *group[rank],
                      {.bucket_sizes = {1 << 10, 1 << 18},
                       .topology = {.name = GetParam().topology},
                       .make_compression = [] { return compression(GetParam()); }});
    GradientTrigger gradients(exchange, parameters);
    counting = true;
    for (std::uint64_t step = 0; step < most_rounds && quiet < quiet_rounds; ++step) {
      gradients.begin({.number = step});
      const at::Generator random = testing::generator(rank);  // the same gradients in every step
      at::Tensor loss = at::zeros({});
      for (const auto& [name, tensor] : parameters) loss = loss + (tensor * torch::randn(tensor.sizes(), random)).sum();
      loss.backward();
      ASSERT_TRUE(gradients.finish());
      between.arrive_and_wait();
    }
    counting = false;
    group[rank]->close();
  });
  EXPECT_EQ(quiet, quiet_rounds) << "the last of " << most_rounds << " rounds took " << latest
                                 << " pieces of memory on " << ranks << " ranks";
}

/// The tensors of an exchange above are too small for several threads. What threads select goes into pieces of memory
/// in the order in which they come, so that a piece may grow in any round, until each has held the largest part.
TEST(Compressors, AllocateNothingOnSeveralThreadsOnceTheyHaveServedATensorOfTheSize) {
  torch::manual_seed(1);
  const at::Tensor gradient = torch::randn({600, 500});
  at::Tensor sum = torch::zeros({600, 500});
  at::set_num_threads(3);
  for (const Case& of : cases()) {
    if (of.topology != collectives::Ring::name || of.shared_memory || of.allowance > 0) continue;
    const auto compressor = compression(of).compressor;
    compressors::Round round{.epoch = 1e6};
    const auto passes = static_cast<std::uint32_t>(compressor->traits().passes.size());
    Bytes payload;
    std::uint64_t quiet = 0;
    std::uint64_t latest = 0;
    counting = true;
    for (std::uint64_t i = 0; i < most_rounds && quiet < quiet_rounds; ++i) {  // the same entries are drawn in each
      for (round.pass = 0; round.pass < passes; ++round.pass) {
        payload.clear();
        ASSERT_TRUE(compressor->encode(gradient, round, payload)) << text(of);
        const BytesView result = payload;
        ASSERT_TRUE(compressor->absorb(std::span(&result, 1), round)) << text(of);
      }
      round.pass = passes - 1;
      ASSERT_TRUE(compressor->decode_add(payload, round, 1, sum)) << text(of);
      latest = allocations.exchange(0);
      quiet = latest == 0 ? quiet + 1 : 0;
    }
    counting = false;
    EXPECT_EQ(quiet, quiet_rounds) << text(of) << ": the last of " << most_rounds << " rounds took " << latest
                                   << " pieces of memory";
  }
  at::set_num_threads(1);
}

TEST(GatheredMean, AllocatesNothingOnceItHasServedATensorOfTheSize) {
  for (const std::string name : {"topk", "dgc", "int8", "qsgd", "terngrad", "signsgd", "onebit"}) {
    const auto compressor = compressors::builtin().make_compressor(name, nullptr).value();
    const std::vector<std::int64_t> shape{600, 500};
    std::vector<Bytes> payloads(4);
    compressors::Round round{.epoch = 1e6, .world = 4};
    const auto passes = static_cast<std::uint32_t>(compressor->traits().passes.size());
    for (round.rank = 0; round.rank < 4; ++round.rank) {
      torch::manual_seed(round.rank);
      const auto gradient = torch::randn(shape);
      for (round.pass = 0; round.pass < passes; ++round.pass) {
        payloads[round.rank].clear();
        compressor->encode(gradient, round, payloads[round.rank]).value();
        const BytesView result = payloads[round.rank];
        compressor->absorb(std::span(&result, 1), round).value();
      }
    }
    round.rank = 0;
    round.pass = passes - 1;
    const std::vector<BytesView> views(payloads.begin(), payloads.end());
    const GatheredMean::Payloads of_ranks{.of_ranks = views, .round = round, .share = 0.25F};
    Mean mean{.tensor = torch::zeros(shape), .sparse = compressor->traits().sparse, .positions = {}};
    GatheredMean gathered;
    at::set_num_threads(3);
    for (int i = 0; i < 4; ++i) {
      counting = i > 0;
      const auto added = gathered.add(*compressor, of_ranks, mean);
      counting = false;
      ASSERT_TRUE(added) << added.error().message();
    }
    at::set_num_threads(1);
    EXPECT_EQ(allocations.exchange(0), 0U) << name;
  }
}

}  // namespace
}  // namespace weir::training
