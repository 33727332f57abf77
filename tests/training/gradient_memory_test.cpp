#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <string>

#include "ranks.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/gradient_trigger.hpp"

namespace weir::training {
namespace {

struct Case {
  std::string compressor;
  std::string memory;
  std::string topology;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.compressor << " " << of.memory << " " << of.topology; }

class GradientMemory : public ::testing::TestWithParam<Case> {};

/// Activations of the next forward pass come where the gradients were.
TEST_P(GradientMemory, IsFreeAfterTheStep) {
  constexpr std::uint32_t ranks = 2;
  auto group = testing::tcp_group(ranks);
  testing::run_ranks(ranks, [&](std::uint32_t rank) {
    const std::vector<NamedTensor> parameters{{"weight", at::ones({64, 32}).set_requires_grad(true)},
                                              {"bias", at::ones({32}).set_requires_grad(true)}};
    const nlohmann::json none;
    auto compression = compressors::builtin().make({.compressor = GetParam().compressor,
                                                    .params = none,
                                                    .memory = GetParam().memory,
                                                    .memory_params = none,
                                                    .setting = {}});
    Exchange exchange(parameters, std::move(*compression), *group[rank],
                      {.bucket_sizes = {1 << 20}, .topology = {.name = GetParam().topology}});
    GradientTrigger gradients(exchange, parameters);
    for (std::uint64_t step = 0; step < 2; ++step) {
      gradients.begin({.number = step});
      std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> given;
      {
        at::Tensor loss = at::zeros({});
        for (const auto& [name, tensor] : parameters) loss = loss + (tensor * at::rand(tensor.sizes())).sum();
        loss.backward();
      }
      for (const auto& [name, tensor] : parameters) given.push_back(tensor.grad().storage().getWeakStorageImpl());
      ASSERT_TRUE(gradients.finish());
      for (const auto& storage : given) EXPECT_TRUE(storage.expired()) << "step " << step;
    }
    group[rank]->close();
  });
}

INSTANTIATE_TEST_SUITE_P(Exchange, GradientMemory,
                         ::testing::Values(Case{"none", "none", "ring"}, Case{"qsgd", "none", "ring"},
                                           Case{"qsgd", "none", "two_hop"}, Case{"qsgd", "none", "multi_hop"},
                                           Case{"powersgd", "none", "ring"}, Case{"dgc", "dgc", "ring"}),
                         [](const auto& info) { return info.param.compressor + "_" + info.param.topology; });

}  // namespace
}  // namespace weir::training
