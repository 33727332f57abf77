// When a tensor goes dense, and what memories make of such a round.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compressors/memories/dgc_memory.hpp"
#include "compressors/memories/ef21_memory.hpp"
#include "compressors/memories/efsignsgd_memory.hpp"
#include "compressors/memories/powersgd_memory.hpp"
#include "compressors/memories/residual_memory.hpp"
#include "compressors/sparsifiers/topk.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

Round of_world(std::uint32_t world) {
  Round round = round_at(3);
  round.world = world;
  return round;
}

/// The least number of ranks with which a matrix goes dense, 0 if that takes more than a thousand.
std::uint32_t goes_dense_from(const Case& it) {
  const auto compressor = it.make();
  for (std::uint32_t world = 1; world <= 1'000; ++world) {
    if (compressor->goes_dense({256, 256}, of_world(world))) return world;
  }
  return 0;
}

TEST(Dense, WhereTheRanksPayloadsWouldBeLongerThanTheRing) {
  EXPECT_EQ(goes_dense_from({"int8", {}}), 8) << "8 bits, and a scale for each row of 256: 65 bits of 8 ranks";
  EXPECT_EQ(goes_dense_from({"natural", {}}), 8);
  EXPECT_EQ(goes_dense_from({"qsgd", {}}), 13) << "5 bits and a norm for each 512";
  EXPECT_EQ(goes_dense_from({"terngrad", {}}), 40) << "1.6 bits, and a scale";
  EXPECT_EQ(goes_dense_from({"onebit", {}}), 64);
  EXPECT_EQ(goes_dense_from({"topk", {{"ratio", 1.0}, {"index_codec", "raw32"}}}), 2) << "64 bits";
  EXPECT_EQ(goes_dense_from({"topk", {{"ratio", 0.5}, {"index_codec", "bitmap"}}}), 4) << "17 bits";
  EXPECT_EQ(goes_dense_from({"topk", {{"ratio", 0.02}, {"index_codec", "raw32"}}}), 50) << "a bit more than 1.28 bits";
  EXPECT_EQ(goes_dense_from({"randomk", {{"ratio", 1.0}, {"value_codec", "int8"}}}), 8);
  EXPECT_EQ(goes_dense_from({"atomo", {}}), 86) << "3 x (256 + 256) floats: 0.75 bits";
  EXPECT_EQ(goes_dense_from({"casq", {}}), 28) << "2 bits and the tables";
  EXPECT_EQ(goes_dense_from({"casq", {{"bits", 4}, {"budget", 1.0}}}), 2) << "tables as long as the tensor";
  EXPECT_EQ(goes_dense_from({"chunk", {{"ratio", 0.99}, {"chunk", 16}}}), 1) << "the norms on top are too much";
}

TEST(Dense, NeverWhereItWouldNotBeLessOrNobodyCanTell) {
  for (const char* name : {"none", "fp16", "bf16", "threshold", "sidco", "sketchml"}) {
    EXPECT_EQ(goes_dense_from({name, {}}), 0) << name;
  }
  EXPECT_EQ(goes_dense_from({"powersgd", {{"start_step", 0}}}), 0);
  // The mean of gradients is no vote.
  for (const char* name : {"signsgd", "signum", "demo"}) EXPECT_EQ(goes_dense_from({name, {}}), 0) << name;
}

TEST(Dense, WhileARatioIsOne) {
  for (const char* name : {"dgc", "chunk"}) {
    const auto compressor = Case{name, {{"warmup_epochs", 2}, {"warmup_dense", 0.5}, {"ratio", 0.01}}}.make();
    Round round = of_world(1);
    const auto dense_at = [&](double epoch) {
      round.epoch = epoch;
      return compressor->goes_dense({256, 256}, round);
    };
    EXPECT_TRUE(dense_at(0)) << name;
    EXPECT_TRUE(dense_at(0.99)) << name;
    EXPECT_FALSE(dense_at(1.2)) << name;
    EXPECT_FALSE(dense_at(2)) << name;
  }
  EXPECT_EQ(goes_dense_from({"dgc", {{"ratio", 1.0}}}), 1);
  const auto dgc = Case{"dgc", {{"warmup_epochs", 0}, {"min_kept", 64}}}.make();
  Round by_owners = of_world(2);
  by_owners.by_owners = true;
  EXPECT_TRUE(dgc->goes_dense({4, 16}, by_owners)) << "all of it would be sent";
  EXPECT_FALSE(dgc->goes_dense({5, 16}, by_owners));
}

TEST(Dense, BeforePowerSgdStarts) {
  const auto powersgd = Case{"powersgd", {{"start_step", 3}}}.make();
  Round round = of_world(4);
  for (round.step = 0; round.step < 6; ++round.step) {
    EXPECT_EQ(powersgd->goes_dense({256, 256}, round), round.step < 3) << round.step;
  }
  EXPECT_EQ(powersgd->warmup_length({.epochs = 10}).rounds, 3u) << "what is reported as after the warm-up begins there";
  EXPECT_EQ(Case({"powersgd", {}}).make()->warmup_length({.epochs = 10}).rounds, 10u);
}

TEST(Dense, WhereFactorsWouldNotBeSmaller) {
  const auto powersgd = Case{"powersgd", {{"start_step", 0}}}.make();
  for (const std::uint32_t world : {1u, 2u, 4u}) {
    EXPECT_TRUE(powersgd->goes_dense({4, 4096}, of_world(world))) << "two columns are as long as half of it";
    EXPECT_TRUE(powersgd->goes_dense({4, 1, 5, 5}, of_world(world)));
    EXPECT_FALSE(powersgd->goes_dense({16, 4096}, of_world(world)));
  }
}

TEST(Dense, SmallTensorsThatAllRanksWouldSendToAllAsTheyAre) {
  const auto casq = Case{"casq", {}}.make();
  EXPECT_FALSE(casq->goes_dense({6, 1, 5, 5}, of_world(2)));
  EXPECT_TRUE(casq->goes_dense({6, 1, 5, 5}, of_world(3)));
}

/// As long as the ratio of a warm-up makes positions and values of all ranks longer than the tensor, too.
TEST(Dense, TheMoreRanksTheLongerInAWarmup) {
  const auto dgc = Case{"dgc", {{"warmup_epochs", 2}, {"warmup_dense", 0}}}.make();
  const auto sparse_from = [&](std::uint32_t world) {
    Round round = of_world(world);
    for (round.epoch = 0; dgc->goes_dense({256, 256}, round);) round.epoch += 0.01;
    return round.epoch;
  };
  EXPECT_NEAR(sparse_from(2), 0.05, 0.05);
  EXPECT_NEAR(sparse_from(16), 0.46, 0.02) << "where 20 % of the entries are sent, with about 20 bits each";
  EXPECT_GT(sparse_from(256), sparse_from(16));
}

TEST(Dense, WhatIsExpectedIsWhatIsSent) {
  for (const Case& it : cases()) {
    const auto compressor = it.make();
    const at::Tensor x = gaussian(1 << 16, 11).reshape({256, 256});
    const auto bits = compressor->expected_bits(x.sizes(), round_at(0));
    if (!bits || std::isinf(bits->gathered)) continue;  // always dense
    // Of atoms a random number is drawn, three on average.
    const std::uint64_t steps = it.name == "atomo" ? 40 : 1;
    double gathered = 0;
    double summed = 0;
    const auto passes = compressor->traits().passes;
    for (std::uint64_t step = 0; step < steps; ++step) {
      Round round = round_at(step);
      for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
        Bytes payload;
        compressor->encode(x, round, payload).value();
        const BytesView result = payload;
        compressor->absorb(std::span(&result, 1), round).value();
        const double sent = 8.0 * static_cast<double>(payload.size()) / static_cast<double>(steps) / 65'536;
        (passes[round.pass] == Reduction::gather ? gathered : summed) += sent;
      }
    }
    // A threshold read off a sample sends up to a half less, if it is not corrected.
    const double head = 8.0 * 64 / 65'536;
    EXPECT_NEAR(summed, bits->summed, 0.01 * bits->summed + 0.001) << ::testing::PrintToString(it);
    EXPECT_LE(gathered, 1.2 * bits->gathered + head) << ::testing::PrintToString(it);
    EXPECT_GE(gathered, 0.5 * bits->gathered) << ::testing::PrintToString(it);
  }
}

/// Of each rank an exchange takes eight bytes an entry, and some for the heads.
void expect_room_in_a_message(Compressor& compressor, const at::Tensor& x) {
  Round round = round_at(0);
  if (compressor.goes_dense(x.sizes(), round)) return;
  const auto passes = compressor.traits().passes;
  for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
    Bytes payload;
    compressor.encode(x, round, payload).value();
    const BytesView result = payload;
    compressor.absorb(std::span(&result, 1), round).value();
    if (passes[round.pass] != Reduction::gather) continue;
    EXPECT_LE(payload.size(), 8 * static_cast<std::size_t>(x.numel()) + 64) << x.sizes();
  }
}

TEST(Dense, OrThereIsRoomForAPayloadInAMessage) {
  auto all = cases();
  for (const char* name : {"topk", "sidco", "dgc"}) {
    all.push_back({name, {{"ratio", 1.0}, {"index_codec", "raw32"}}});
  }
  all.push_back({"cocktail", {{"ratio", 1.0}, {"top", 1.0}, {"index_codec", "raw32"}}});
  all.push_back({"threshold", {{"threshold", 0.0}, {"index_codec", "raw32"}}});
  all.push_back({"blockk", {{"block", 64}, {"per_block", 64}, {"index_codec", "raw32"}}});
  all.push_back({"demo", {{"per_chunk", 4096}, {"index_codec", "raw32"}}});
  all.push_back({"atomo", {{"budget", 1e6}}});
  all.push_back({"atomo", {{"atoms", "dct"}, {"ratio", 1.0}}});
  all.push_back({"casq", {{"bits", 4}, {"budget", 1.0}}});
  all.push_back({"sketchml", {{"ratio", 1.0}, {"rows", 8}, {"columns", 8.0}}});
  for (const Case& it : all) {
    SCOPED_TRACE(::testing::PrintToString(it));
    for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 5}, {70, 1}, {1, 70}, {128, 64}}) {
      const auto compressor = it.make();
      expect_room_in_a_message(*compressor, gaussian(rows * columns, 3).reshape({rows, columns}));
    }
  }
}

TEST(Dense, SignMethodsTakeTensorsOfAnyShapeAndOthersLongVectors) {
  const std::vector<std::string> all = {"signsgd", "signum", "efsignsgd", "demo"};
  const std::vector<std::string> matrices = {"powersgd", "atomo"};
  for (const std::string& name : compressor_names()) {
    const auto compressor = Case{name, {}}.make();
    EXPECT_TRUE(compressor->takes({4, 4})) << name;
    EXPECT_EQ(compressor->takes({4095}), std::ranges::count(all, name) == 1) << name;
    EXPECT_EQ(compressor->takes({4096}), std::ranges::count(matrices, name) == 0) << name;
    EXPECT_EQ(compressor->takes({}), std::ranges::count(all, name) == 1) << name;
  }
  const auto entries = Case{"atomo", {{"atoms", "entrywise"}}}.make();
  EXPECT_TRUE(entries->takes({4096}));
  EXPECT_FALSE(entries->takes({4095}));
}

constexpr std::int64_t entries = 600;

at::Tensor gradient_at(std::uint64_t step, std::uint32_t rank) { return gaussian(entries, 50 * step + rank + 1); }

/// Ranks that train one tensor together, with top-k.
struct Ranks {
  explicit Ranks(std::vector<std::unique_ptr<Memory>> own) : memories(std::move(own)) {}
  TopK compressor{{.ratio = 0.05}};
  std::vector<std::unique_ptr<Memory>> memories;

  Round round(std::uint64_t step) const {
    Round round = round_at(step);
    round.world = static_cast<std::uint32_t>(memories.size());
    return round;
  }

  /// What each rank's optimizer gets.
  std::vector<at::Tensor> step(std::uint64_t step, bool dense) {
    const float share = 1 / static_cast<float>(memories.size());
    at::Tensor mean = at::zeros({entries});
    std::vector<Bytes> payloads(memories.size());
    for (std::uint32_t r = 0; r < memories.size(); ++r) {
      const at::Tensor gradient = gradient_at(step, r);
      if (dense) {
        mean += memories[r]->compensate_dense(gradient, round(step)).value() * share;
        continue;
      }
      compressor.encode(memories[r]->compensate(gradient, round(step)).value(), round(step), payloads[r]).value();
      compressor.decode_add(payloads[r], round(step), share, mean).value();
    }
    std::vector<at::Tensor> applied;
    for (std::uint32_t r = 0; r < memories.size(); ++r) {
      applied.push_back(mean.clone());
      if (dense) {
        memories[r]->average_dense(applied.back(), round(step)).value();
      } else {
        memories[r]
            ->update(round(step), SentPayload(compressor, payloads[r], round(step), applied.back()), applied.back())
            .value();
      }
      EXPECT_TRUE(same_bits(applied.back(), applied.front())) << "rank " << r << " in step " << step;
    }
    return applied;
  }
};

template <class M, class... Args>
Ranks three(const Args&... args) {
  std::vector<std::unique_ptr<Memory>> memories;
  for (int r = 0; r < 3; ++r) memories.push_back(std::make_unique<M>(args...));
  return Ranks(std::move(memories));
}

at::Tensor mean_gradient(std::uint64_t step) {
  return (gradient_at(step, 0) + gradient_at(step, 1) + gradient_at(step, 2)) / 3;
}

at::Tensor state(const Memory& memory, std::string_view name) {
  for (const NamedTensor& tensor : memory.save()) {
    if (tensor.name == name) return tensor.tensor.clone();
  }
  return {};
}

constexpr bool dense_in_step[] = {true, false, false, true, true, false, true};

/// After a dense round all gradients have arrived, whatever came before it.
void expect_nothing_is_owed_after_a_dense_round(Ranks ranks) {
  at::Tensor applied = at::zeros({entries});
  at::Tensor gradients = at::zeros({entries});
  for (std::uint64_t step = 0; step < std::size(dense_in_step); ++step) {
    applied += ranks.step(step, dense_in_step[step])[0];
    gradients += mean_gradient(step);
    EXPECT_EQ(at::allclose(applied, gradients, 1e-4, 1e-5), dense_in_step[step]) << step;
    if (!dense_in_step[step]) continue;
    for (const auto& memory : ranks.memories)
      EXPECT_TRUE(at::equal(state(*memory, "residual.0"), at::zeros({entries})));
  }
}

TEST(DenseRound, SendsTheResidual) {
  expect_nothing_is_owed_after_a_dense_round(three<ResidualMemory>(ResidualMemory::Options{}));
}
TEST(DenseRound, SendsTheResidualOfPowerSgd) { expect_nothing_is_owed_after_a_dense_round(three<PowerSgdMemory>()); }
TEST(DenseRound, SendsTheResidualOfEfSignSgd) {
  expect_nothing_is_owed_after_a_dense_round(three<EfSignSgdMemory>(EfSignSgdMemory::Options{}));
}

TEST(DenseRound, SendsTheResidualInUnitsOfTheStep) {
  Ranks ranks = three<EfSignSgdMemory>(EfSignSgdMemory::Options{});
  Round coarse = ranks.round(0);
  coarse.learning_rate = 0.1;
  const at::Tensor g = gradient_at(0, 0);
  auto& memory = *ranks.memories[0];
  const Bytes payload = encoded(ranks.compressor, memory.compensate(g, coarse).value(), coarse);
  at::Tensor sent = decoded(ranks.compressor, payload, g, coarse);
  memory.update(coarse, SentPayload(ranks.compressor, payload, coarse, sent), sent).value();
  const at::Tensor owed = g - sent;

  Round pause = ranks.round(1);
  pause.learning_rate = 0;
  EXPECT_TRUE(at::equal(memory.compensate_dense(g, pause).value(), g)) << "nothing reaches the weights";
  memory.average_dense(sent, pause).value();
  Round fine = ranks.round(2);
  fine.learning_rate = 0.05;
  EXPECT_TRUE(at::allclose(memory.compensate_dense(g, fine).value(), g + 2 * owed, 1e-5, 1e-6));
  memory.average_dense(sent, fine).value();
  EXPECT_TRUE(at::equal(memory.compensate_dense(g, fine).value(), g));
}

TEST(DenseRound, OfEf21IsTheGradientItself) {
  Ranks ranks = three<Ef21Memory>(Ef21Memory::Options{});
  std::vector<at::Tensor> own(3, at::zeros({entries}));
  at::Tensor shared = at::zeros({entries});
  for (std::uint64_t step = 0; step < std::size(dense_in_step); ++step) {
    const at::Tensor applied = ranks.step(step, dense_in_step[step])[0];
    if (dense_in_step[step]) {
      for (std::uint32_t r = 0; r < 3; ++r) own[r] = gradient_at(step, r);
      shared = mean_gradient(step);
    } else {
      for (std::uint32_t r = 0; r < 3; ++r) {
        const at::Tensor missing = gradient_at(step, r) - own[r];
        const at::Tensor at = std::get<1>(missing.abs().topk(30));
        own[r].index_add_(0, at, missing.index_select(0, at));
        shared.index_add_(0, at, missing.index_select(0, at) / 3);
      }
    }
    EXPECT_TRUE(at::allclose(applied, shared, 1e-4, 1e-5)) << step;
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_TRUE(at::allclose(state(*ranks.memories[r], "own.0"), own[r], 1e-4, 1e-5)) << step;
      EXPECT_TRUE(at::allclose(state(*ranks.memories[r], "shared.0"), shared, 1e-4, 1e-5)) << step;
    }
  }
}

TEST(DenseRound, OfATensorThatIsNeverCompressedLeavesNoState) {
  for (const auto& memory : builtin().memories()) {
    if (memory.name == "dgc") continue;  // which has its momentum
    const auto made = memory.make(nullptr, {.momentum = 0.9}).value();
    at::Tensor mean = gradient_at(0, 0);
    made->average_dense(mean, round_at(0)).value();
    EXPECT_TRUE(at::equal(mean, gradient_at(0, 0))) << memory.name;
    EXPECT_TRUE(made->save().empty()) << memory.name;
  }
}

TEST(DenseRound, OfDgcIsMomentumOnTheMeanBeforeTheFirstSparseOne) {
  for (const bool nesterov : {false, true}) {
    Ranks ranks = three<DgcMemory>(DgcMemory::Options{}, MemorySetting{.momentum = 0.9, .nesterov = nesterov});
    at::Tensor momentum = at::zeros({entries});
    for (std::uint64_t step = 0; step < 4; ++step) {
      const at::Tensor g = mean_gradient(step);
      momentum = nesterov ? (momentum + g) * 0.9F : momentum * 0.9F + g;
      const at::Tensor applied = ranks.step(step, true)[0];
      EXPECT_TRUE(at::allclose(applied, nesterov ? momentum + g : momentum, 1e-5, 1e-6)) << step;
    }
    for (const auto& memory : ranks.memories) {
      EXPECT_TRUE(at::allclose(state(*memory, "momentum.0"), momentum, 1e-5, 1e-6));
      EXPECT_FALSE(state(*memory, "velocity.0").defined());
    }
  }
}

/// Each rank has momentum and velocity of its own after a sparse round; what the optimizers get is the same all the
/// same (Ranks::step), and no velocity is left.
TEST(DenseRound, OfDgcAfterSparseOnesSendsTheVelocityUnmasked) {
  Ranks ranks = three<DgcMemory>(DgcMemory::Options{}, MemorySetting{.momentum = 0.9});
  std::vector<at::Tensor> momentum(3, at::zeros({entries}));
  std::vector<at::Tensor> velocity(3, at::zeros({entries}));
  for (std::uint64_t step = 0; step < std::size(dense_in_step); ++step) {
    const bool dense = dense_in_step[step];
    at::Tensor expected = at::zeros({entries});
    for (std::uint32_t r = 0; r < 3; ++r) {
      momentum[r] = momentum[r] * 0.9F + (step == 0 ? mean_gradient(step) : gradient_at(step, r));
      velocity[r] = velocity[r] + momentum[r];
      const auto at = std::get<1>(velocity[r].abs().topk(dense ? entries : 30));
      expected.index_add_(0, at, velocity[r].index_select(0, at) / 3);
      velocity[r].index_fill_(0, at, 0);
      if (!dense) momentum[r].index_fill_(0, at, 0);
    }
    EXPECT_TRUE(at::allclose(ranks.step(step, dense)[0], expected, 1e-4, 1e-5)) << step;
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_TRUE(at::allclose(state(*ranks.memories[r], "momentum.0"), momentum[r], 1e-4, 1e-5)) << step;
      if (step == 0) continue;
      EXPECT_TRUE(at::allclose(state(*ranks.memories[r], "velocity.0"), velocity[r], 1e-4, 1e-5)) << step;
    }
  }
}

TEST(DenseRound, OfDgcClipsTheMean) {
  Ranks ranks = three<DgcMemory>(DgcMemory::Options{.clip_norm = 2.0}, MemorySetting{});
  const at::Tensor applied = ranks.step(0, true)[0];
  const at::Tensor mean = mean_gradient(0);
  EXPECT_TRUE(at::allclose(applied, mean * (2 / std::sqrt(squared_norm(mean))), 1e-4, 1e-6));
}

}  // namespace
}  // namespace weir::compressors::test
