#include <gtest/gtest.h>

#include <cmath>

#include "compressors/memories/dgc_memory.hpp"
#include "compressors/memories/residual_memory.hpp"
#include "compressors/sparsifiers/topk.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr std::int64_t entries = 800;

at::Tensor gradient_at(std::uint64_t step, std::uint32_t rank = 0) { return gaussian(entries, 100 * step + rank + 1); }

/// One rank: its compressor, its memory and what it sent last.
struct Rank {
  TopK compressor{{.ratio = 0.05}};
  std::unique_ptr<Memory> memory;
  Bytes payload = {};

  void encode(const at::Tensor& gradient, const Round& round) {
    payload.clear();
    compressor.encode(memory->compensate(gradient, round).value(), round, payload).value();
  }
};

at::Tensor state(const Memory& memory, std::string_view name) {
  for (const NamedTensor& tensor : memory.save()) {
    if (tensor.name == name) return tensor.tensor.clone();
  }
  return {};
}

TEST(ResidualMemory, HasNoPlaceBeyondATensorFromACheckpoint) {
  ResidualMemory memory(ResidualMemory::Options{});
  memory.restore(std::vector<NamedTensor>{{"residual.3", at::ones({4})}}).value();
  const std::vector<float> values(3, 1.0F);
  const Round round{.tensor = 3};
  EXPECT_FALSE(memory.add_unsent(round, 2, values));
  EXPECT_FALSE(memory.add_unsent(round, 5, values));
  EXPECT_TRUE(state(memory, "residual.3").equal(at::ones({4})));
  EXPECT_TRUE(memory.add_unsent(round, 1, values));
  EXPECT_EQ(state(memory, "residual.3").sum().item<float>(), 7.0F);
}

TEST(ResidualMemory, WhatWasSentAndWhatIsLeftAddUpToTheGradients) {
  Rank rank{.memory = std::make_unique<ResidualMemory>(ResidualMemory::Options{})};
  at::Tensor gradients = at::zeros({entries}, at::kDouble);
  at::Tensor sent = at::zeros({entries}, at::kDouble);
  for (std::uint64_t step = 0; step < 50; ++step) {
    const Round round = round_at(step);
    rank.encode(gradient_at(step), round);
    at::Tensor mean = decoded(rank.compressor, rank.payload, gradients, round);
    rank.memory->update(round, SentPayload(rank.compressor, rank.payload, round, mean), mean).value();
    gradients += gradient_at(step);
    sent += mean;
  }
  EXPECT_TRUE(at::allclose(gradients, sent + state(*rank.memory, "residual.0"), 1e-4, 1e-4));
  EXPECT_LT(std::sqrt(squared_norm(gradients - sent)), 0.9 * std::sqrt(squared_norm(gradients)));
}

TEST(ResidualMemory, FollowsItsFormula) {
  Rank rank{.memory = std::make_unique<ResidualMemory>(ResidualMemory::Options{.beta = 0.5, .gamma = 0.25})};
  at::Tensor residual = at::zeros({entries});
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Round round = round_at(step);
    rank.encode(gradient_at(step), round);
    residual = residual * 0.5 + gradient_at(step) * 0.25;
    at::Tensor mean = decoded(rank.compressor, rank.payload, residual, round);
    residual -= mean;
    rank.memory->update(round, SentPayload(rank.compressor, rank.payload, round, mean), mean).value();
    EXPECT_TRUE(at::equal(state(*rank.memory, "residual.0"), residual));
  }
}

/// Several ranks for several steps against the formulas, written with whole-tensor operations.
void expect_dgc(const MemorySetting& setting, const DgcMemory::Options& options) {
  constexpr std::uint32_t world = 3;
  std::vector<Rank> ranks(world);
  std::vector<at::Tensor> momentum(world, at::zeros({entries}));
  std::vector<at::Tensor> velocity(world, at::zeros({entries}));
  for (Rank& rank : ranks) rank.memory = std::make_unique<DgcMemory>(options, setting);
  const auto mu = static_cast<float>(setting.momentum);
  for (std::uint64_t step = 0; step < 6; ++step) {
    Round round = round_at(step);
    round.world = world;
    at::Tensor mean = at::zeros({entries});
    at::Tensor expected = at::zeros({entries});
    for (std::uint32_t r = 0; r < world; ++r) {
      at::Tensor g = gradient_at(step, r);
      ranks[r].encode(g, round);
      ranks[r].compressor.decode_add(ranks[r].payload, round, 1.0F / world, mean).value();

      const double limit = options.clip_norm.value_or(1e9) * std::sqrt(double{world});
      if (const double norm = std::sqrt(squared_norm(g)); norm > limit) g = g * static_cast<float>(limit / norm);
      if (setting.nesterov) {
        momentum[r] = (momentum[r] + g) * mu;
        velocity[r] = velocity[r] + (momentum[r] + g);
      } else {
        momentum[r] = momentum[r] * mu + g;
        velocity[r] = velocity[r] + momentum[r];
      }
      const std::int64_t kept = 40;
      const at::Tensor at = std::get<1>(velocity[r].abs().topk(kept));
      expected.index_add_(0, at, velocity[r].index_select(0, at) / static_cast<float>(world));
      velocity[r].index_fill_(0, at, 0);
      if (options.momentum_masking) momentum[r].index_fill_(0, at, 0);
    }
    EXPECT_TRUE(at::allclose(mean, expected, 1e-5, 1e-6)) << step;
    for (std::uint32_t r = 0; r < world; ++r) {
      ranks[r].memory->update(round, SentPayload(ranks[r].compressor, ranks[r].payload, round, mean), mean).value();
      EXPECT_TRUE(at::allclose(state(*ranks[r].memory, "velocity.0"), velocity[r], 1e-5, 1e-6)) << step;
      EXPECT_TRUE(at::allclose(state(*ranks[r].memory, "momentum.0"), momentum[r], 1e-5, 1e-6)) << step;
    }
  }
}

TEST(DgcMemory, CorrectsMomentum) { expect_dgc({.momentum = 0.9}, {}); }
TEST(DgcMemory, CorrectsNesterovMomentum) { expect_dgc({.momentum = 0.9, .nesterov = true}, {}); }
TEST(DgcMemory, KeepsMomentumOfSentEntriesWithoutMasking) {
  expect_dgc({.momentum = 0.9}, {.momentum_masking = false});
}
TEST(DgcMemory, ClipsLocally) {
  expect_dgc({.momentum = 0.5}, {.clip_norm = 2.0});
  expect_dgc({.momentum = 0.5, .nesterov = true}, {.clip_norm = 2.0});
}

TEST(DgcMemory, SendingEverythingUnmaskedIsMomentumSgd) {
  TopK everything({.ratio = 1});
  DgcMemory memory({.momentum_masking = false}, {.momentum = 0.9});
  at::Tensor momentum = at::zeros({entries});
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Round round = round_at(step);
    const at::Tensor input = memory.compensate(gradient_at(step), round).value();
    const Bytes payload = encoded(everything, input, round);
    at::Tensor mean = decoded(everything, payload, input, round);
    memory.update(round, SentPayload(everything, payload, round, mean), mean).value();
    momentum = momentum * 0.9F + gradient_at(step);
    EXPECT_TRUE(at::allclose(mean, momentum, 1e-5, 1e-6));
  }
}

TEST(DgcMemory, DenseTensorsGetTheSameMomentumAfterAveraging) {
  for (const bool nesterov : {false, true}) {
    DgcMemory memory({}, {.momentum = 0.9, .nesterov = nesterov});
    at::Tensor momentum = at::zeros({entries});
    for (std::uint64_t step = 0; step < 5; ++step) {
      const at::Tensor g = gradient_at(step);
      at::Tensor mean = g.clone();
      memory.average_dense(mean, round_at(step, 4)).value();
      momentum = nesterov ? (momentum + g) * 0.9F : momentum * 0.9F + g;
      EXPECT_TRUE(at::allclose(mean, nesterov ? momentum + g : momentum, 1e-5, 1e-6));
    }
    EXPECT_EQ(memory.save().size(), 1) << "no velocity is kept for it";
    EXPECT_TRUE(state(memory, "momentum.4").defined());
  }
}

}  // namespace
}  // namespace weir::compressors::test
