// Counts what the exchange takes from the heap in a round: on the threads that carry it, nothing, once everything has
// its size. The threads that compute gradients are not counted, LibTorch's memory for tensors is not either.

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

#include "actors/exchange/exchange.hpp"
#include "ranks.hpp"

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

namespace weir::actors {
namespace {

constexpr std::uint32_t ranks = 3;
constexpr std::uint64_t steps_before = 30;
constexpr std::uint64_t steps_counted = 20;

struct Case {
  std::string compressor;
  nlohmann::json params;
  bool shared_memory = false;
  bool sizes_follow_data = false;  ///< a round may need more than all before it
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.compressor; }

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.compressor + (info.param.shared_memory ? "_shared_memory" : "_tcp");
}

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
INSTANTIATE_TEST_SUITE_P(Exchange, Allocations,
                         ::testing::Values(Case{"none", nullptr}, Case{"none", nullptr, true}, Case{"fp16", nullptr},
                                           Case{"topk", {{"ratio", 0.01}}, false, true},
                                           Case{"dgc", {{"ratio", 0.01}, {"warmup_epochs", 0}}, false, true},
                                           Case{"dgc", {{"ratio", 0.01}, {"warmup_epochs", 0}}, true, true}),
                         name_of);

TEST_P(Allocations, AreNoneInARound) {
  auto group = testing::mesh_group(ranks, GetParam().shared_memory);
  std::barrier together(ranks);
  testing::run_ranks(ranks, [&](std::uint32_t rank) {
    computes_gradients = true;
    at::set_num_threads(1);
    const std::vector<NamedTensor> parameters{{"first", at::ones({300, 200}).set_requires_grad(true)},
                                              {"bias", at::ones({200}).set_requires_grad(true)},
                                              {"second", at::ones({200, 100}).set_requires_grad(true)}};
    Exchange exchange(parameters, compression(GetParam()), *group[rank], {.bucket_sizes = {1 << 10, 1 << 18}});
    for (std::uint64_t step = 0; step < steps_before + steps_counted; ++step) {
      together.arrive_and_wait();
      if (rank == 0 && step == steps_before) counting = true;
      exchange.begin({.number = step});
      torch::manual_seed(rank);  // the same gradients in every step
      at::Tensor loss = at::zeros({});
      for (const auto& [name, tensor] : parameters) loss = loss + (tensor * torch::randn(tensor.sizes())).sum();
      loss.backward();
      ASSERT_TRUE(exchange.finish());
    }
    together.arrive_and_wait();
    counting = false;
    group[rank]->close();
  });
  // One that is made in every round, on one rank alone, makes as many as rounds.
  const std::uint64_t limit = GetParam().sizes_follow_data ? steps_counted / 2 : 0;
  EXPECT_LE(allocations.exchange(0), limit) << "in " << steps_counted << " rounds of " << ranks << " ranks";
}

}  // namespace
}  // namespace weir::actors
