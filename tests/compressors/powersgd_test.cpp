#include "compressors/transforms/powersgd.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "base/processor.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/ef21_memory.hpp"
#include "compressors/memories/powersgd_memory.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

at::Tensor matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return gaussian(rows * columns, seed).reshape({rows, columns});
}

at::Tensor numbers(const Bytes& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size() / sizeof(float))}, at::kFloat);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Bytes bytes_of(const at::Tensor& tensor) {
  const auto bytes = std::as_bytes(flat(tensor));
  return {bytes.begin(), bytes.end()};
}

/// Several ranks of one exchange.
struct Ranks {
  explicit Ranks(std::size_t world, PowerSgd::Options options = {}) {
    for (std::size_t i = 0; i < world; ++i) compressors.push_back(std::make_unique<PowerSgd>(options));
  }

  /// A round; gives the mean that each rank decodes, and leaves what each encoded last in `payloads`.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& gradients, Round round) {
    Bytes sum;
    for (round.pass = 0; round.pass < 2; ++round.pass) {
      payloads.assign(compressors.size(), {});
      at::Tensor total;
      for (std::size_t i = 0; i < compressors.size(); ++i) {
        compressors[i]->encode(gradients[i], round, payloads[i]).value();
        total = i == 0 ? numbers(payloads[i]) : total + numbers(payloads[i]);
      }
      sum = bytes_of(total);
      const BytesView result = sum;
      for (const auto& compressor : compressors) compressor->absorb(std::span(&result, 1), round).value();
    }
    round.pass = 1;
    std::vector<at::Tensor> means;
    for (const auto& compressor : compressors) {
      means.push_back(at::zeros_like(gradients[0]));
      compressor->decode_add(sum, round, 1.0F / static_cast<float>(compressors.size()), means.back()).value();
    }
    return means;
  }

  std::vector<std::unique_ptr<PowerSgd>> compressors;
  std::vector<Bytes> payloads;
};

/// The Q, as columns, that a compressor would start from: what it makes of the identity.
at::Tensor start_of(PowerSgd& compressor, std::int64_t columns, const Round& round) {
  Bytes payload;
  compressor.encode(at::eye(columns), round, payload).value();
  return numbers(payload).reshape({-1, columns}).t().to(at::kDouble);
}

/// The textbook: P = sum(M) Q, Gram-Schmidt, Q = sum(M)^T P, P Q^T. Leaves Q in `query`.
at::Tensor reference(const at::Tensor& sum, at::Tensor& query) {
  const at::Tensor left = sum.mm(query);
  for (std::int64_t j = 0; j < left.size(1); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      left.select(1, j).sub_(left.select(1, i) * left.select(1, i).dot(left.select(1, j)));
    }
    left.select(1, j).div_(left.select(1, j).norm());
  }
  query = sum.t().mm(left);
  return left.mm(query.t());
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return std::sqrt(squared_norm(a.to(at::kDouble) - b.to(at::kDouble)) / squared_norm(b));
}

TEST(PowerSgd, IsTheTextbookOverSeveralRanks) {
  for (const std::int64_t rank : {1, 2, 3}) {
    Ranks ranks(3, {.rank = rank});
    at::Tensor query = start_of(*ranks.compressors[0], 45, round_at(0));
    EXPECT_TRUE(at::allclose(query.norm(2, 0), at::ones({rank}, at::kDouble), 1e-5, 1e-5)) << "normalised noise";
    for (std::uint64_t step = 0; step < 5; ++step) {
      std::vector<at::Tensor> gradients;
      at::Tensor sum = at::zeros({31, 45}, at::kDouble);
      for (std::uint64_t i = 0; i < 3; ++i) {
        gradients.push_back(matrix(31, 45, 10 * step + i) + matrix(31, 45, 99) * 3);
        sum += gradients.back();
      }
      const std::vector<at::Tensor> means = ranks.run(gradients, round_at(step));
      EXPECT_LT(distance(means[0], reference(sum, query) / 3), 1e-4) << "rank " << rank << ", step " << step;
      EXPECT_TRUE(same_bits(means[1], means[0]) && same_bits(means[2], means[0])) << "replicas do not drift";
    }
  }
}

TEST(PowerSgd, TheRanksSharesAddUpToTheMean) {
  Ranks ranks(3);
  const std::vector<at::Tensor> gradients = {matrix(40, 50, 1), matrix(40, 50, 2), matrix(40, 50, 3)};
  const at::Tensor mean = ranks.run(gradients, round_at(4))[0];
  at::Tensor shares = at::zeros_like(mean);
  for (std::size_t i = 0; i < 3; ++i) {
    shares += decoded(*ranks.compressors[i], ranks.payloads[i], mean, round_at(4)) / 3;
  }
  EXPECT_LT(distance(shares, mean), 1e-5);
}

TEST(PowerSgd, FindsALowRankMeanAtOnceAndStaysThere) {
  Ranks ranks(2);
  const at::Tensor right = matrix(2, 300, 1);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const at::Tensor left = matrix(64, 2, 5 + step);
    const at::Tensor low = left.mm(right);
    const at::Tensor noise = matrix(64, 300, 9);
    EXPECT_LT(distance(ranks.run({low + noise, low - noise}, round_at(step))[0], low), 1e-4);
  }
}

TEST(PowerSgd, AWarmStartConvergesToTheBestApproximation) {
  const auto [u, s, v] = at::linalg_svd(matrix(48, 64, 1), false);
  const at::Tensor spectrum = at::pow(0.8, at::arange(48, at::kFloat));
  const at::Tensor x = (u * spectrum).mm(v);
  const double best = std::sqrt(std::pow(0.8, 4) / 1.0);  // what two singular values leave: the tail from the third
  const auto error_after = [&](bool warm, std::uint64_t steps) {
    Ranks ranks(1, {.warm_start = warm});
    double error = 0;
    for (std::uint64_t step = 0; step < steps; ++step) error = distance(ranks.run({x}, round_at(step))[0], x);
    return error;
  };
  EXPECT_NEAR(error_after(true, 40), best, 1e-3);
  EXPECT_GT(error_after(false, 40), best + 1e-2);
}

TEST(PowerSgd, TensorsThatWouldNotShrinkEnoughAreSentAsTheyAre) {
  const auto bytes_for = [](const at::Tensor& x, PowerSgd::Options options) {
    PowerSgd powersgd(options);
    Round round = round_at(0);
    Bytes first;
    powersgd.encode(x, round, first).value();
    const BytesView result = first;
    powersgd.absorb(std::span(&result, 1), round).value();
    Bytes second;
    round.pass = 1;
    powersgd.encode(x, round, second).value();
    return std::pair(first.size() / sizeof(float), second.size() / sizeof(float));
  };
  using Sizes = std::pair<std::size_t, std::size_t>;
  // (8 + 8) * 2 * 2 is not below 8 * 8; (8 + 9) * 2 * 2 is below 8 * 9.
  EXPECT_EQ(bytes_for(matrix(8, 8, 1), {}), Sizes(0, 64));
  EXPECT_EQ(bytes_for(matrix(8, 9, 1), {}), Sizes(16, 18));
  EXPECT_EQ(bytes_for(matrix(9, 9, 1), {.rank = 3}), Sizes(0, 81));
  EXPECT_EQ(bytes_for(matrix(8, 8, 1), {.min_compression_rate = 1.9}), Sizes(16, 16));
  EXPECT_EQ(bytes_for(gaussian(10'000, 1), {}), Sizes(0, 10'000));
  EXPECT_EQ(bytes_for(gaussian(3'600, 1).reshape({20, 5, 6, 6}), {}), Sizes(40, 360));
}

TEST(PowerSgd, ZeroAndDependentColumnsLeaveNoNaNAndNoDeadRank) {
  Ranks ranks(1, {.rank = 3});
  const at::Tensor one = at::outer(gaussian(40, 1), gaussian(60, 2));
  const std::vector<at::Tensor> rounds = {at::zeros({40, 60}), one, at::ones({40, 60}), at::zeros({40, 60}), one};
  for (std::size_t step = 0; step < rounds.size(); ++step) {
    const at::Tensor mean = ranks.run({rounds[step]}, round_at(step))[0];
    EXPECT_TRUE(at::allclose(mean, rounds[step], 1e-4, 1e-5)) << step;
  }
  const at::Tensor three = matrix(40, 3, 5).mm(matrix(3, 60, 6));
  EXPECT_LT(distance(ranks.run({three}, round_at(9))[0], three), 1e-3) << "columns that were zero start anew";
}

TEST(PowerSgd, AStepCanBeRepeated) {
  Ranks ranks(1);
  for (std::uint64_t step = 0; step < 3; ++step) ranks.run({matrix(30, 40, step)}, round_at(step));
  const at::Tensor mean = ranks.run({matrix(30, 40, 7)}, round_at(3))[0];
  const Bytes payload = ranks.payloads[0];
  EXPECT_TRUE(same_bits(ranks.run({matrix(30, 40, 7)}, round_at(3))[0], mean));
  EXPECT_EQ(ranks.payloads[0], payload);
}

TEST(PowerSgd, StateOfAnotherShapeOrRankIsNotUsed) {
  Ranks first(1, {.rank = 2});
  first.run({matrix(30, 40, 1)}, round_at(0));
  Ranks wider(1, {.rank = 3});
  ASSERT_TRUE(wider.compressors[0]->restore(first.compressors[0]->save()));
  Ranks fresh(1, {.rank = 3});
  EXPECT_TRUE(
      same_bits(wider.run({matrix(30, 40, 2)}, round_at(1))[0], fresh.run({matrix(30, 40, 2)}, round_at(1))[0]));
  EXPECT_TRUE(at::isfinite(first.run({matrix(50, 60, 3)}, round_at(1))[0]).all().item<bool>());
}

TEST(PowerSgd, TheLargestFloatsSaturate) {
  const float most = std::numeric_limits<float>::max();
  at::Tensor mixed = at::full({64, 64}, most);
  mixed.slice(0, 0, 64, 2).neg_();
  for (const at::Tensor& x : {at::full({64, 64}, most), mixed}) {
    Ranks ranks(1);
    const at::Tensor mean = ranks.run({x}, round_at(0))[0];
    EXPECT_TRUE(at::isfinite(mean).all().item<bool>());
    EXPECT_LT(distance(mean, x), 1);
  }
}

TEST(PowerSgd, RefusesSumsThatAreNotDueOrNotFinite) {
  PowerSgd powersgd({});
  Round round = round_at(0);
  Bytes factor;
  BytesView result = factor;
  EXPECT_EQ(powersgd.absorb(std::span(&result, 1), round).error().code, Errc::invalid_argument);
  powersgd.encode(matrix(30, 40, 1), round, factor).value();
  result = BytesView(factor).first(factor.size() - 4);
  EXPECT_EQ(powersgd.absorb(std::span(&result, 1), round).error().code, Errc::malformed);
  EXPECT_EQ(powersgd.absorb({}, round).error().code, Errc::malformed);
  at::Tensor bad = numbers(factor);
  bad[3] = INFINITY;
  const Bytes infinite = bytes_of(bad);
  result = infinite;
  EXPECT_EQ(powersgd.absorb(std::span(&result, 1), round).error().code, Errc::malformed);

  Bytes second;
  round.pass = 1;
  EXPECT_EQ(powersgd.encode(matrix(30, 40, 1), round, second).error().code, Errc::invalid_argument);
  at::Tensor sum = at::zeros({30, 40});
  const Bytes hostile = bytes_of(at::full({80}, std::numeric_limits<float>::max()));
  EXPECT_EQ(powersgd.decode_add(hostile, round, 1, sum).error().code, Errc::malformed) << "nothing absorbed";
  round.pass = 0;
  result = factor;
  ASSERT_TRUE(powersgd.absorb(std::span(&result, 1), round));
  EXPECT_EQ(powersgd.decode_add(bytes_of(at::full({80}, NAN)), round, 1, sum).error().code, Errc::malformed);
  EXPECT_EQ(powersgd.decode_add(Bytes(81 * 4), round, 1, sum).error().code, Errc::malformed);
  EXPECT_TRUE(powersgd.decode_add(Bytes(80 * 4), round, 1, sum));
}

TEST(LowRankKernels, AreTheirFormulasAndTheSameForEveryProcessor) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {5, 37}, {70, 2'500}}) {
    const at::Tensor m = matrix(rows, columns, 3);
    for (const std::int64_t rank : {1, 2, 5}) {
      const at::Tensor left = matrix(rank, rows, 4);
      const at::Tensor right = matrix(rank, columns, 5);
      const MatrixShape shape{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
      const auto r = static_cast<std::size_t>(rank);
      const auto all = [&] {
        at::Tensor p = at::zeros({rank, rows});
        at::Tensor q = at::zeros({rank, columns});
        at::Tensor sum = m.clone();
        multiply(m.data_ptr<float>(), shape, 0, shape.rows, right.data_ptr<float>(), r, p.data_ptr<float>());
        multiply_transposed(m.data_ptr<float>(), shape, 0, shape.columns, left.data_ptr<float>(), r,
                            q.data_ptr<float>());
        add_outer_products(left.data_ptr<float>(), right.data_ptr<float>(), r, shape, 0, shape.rows, 0.5F,
                           sum.data_ptr<float>());
        return std::vector<at::Tensor>{p, q, sum};
      };
      const std::vector<at::Tensor> fast = all();
      EXPECT_TRUE(at::allclose(fast[0], right.mm(m.t()), 1e-3, 1e-3));
      EXPECT_TRUE(at::allclose(fast[1], left.mm(m), 1e-3, 1e-3));
      EXPECT_TRUE(at::allclose(fast[2], m + left.t().mm(right) * 0.5, 1e-3, 1e-3));
      const KernelsUpTo portable(Kernels::portable);
      const std::vector<at::Tensor> plain = all();
      for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], fast[i])) << i;
    }
  }
}

TEST(LowRankKernels, OrthonormaliseNearlyParallelVectors) {
  at::Tensor vectors = matrix(4, 500, 1);
  vectors[1] = vectors[0] * 3 + vectors[1] * 1e-5;
  vectors[2] = vectors[0] * 0.1;
  vectors[3] *= 1e-30;
  orthonormalise(flat(vectors), 4);
  const at::Tensor gram = vectors.to(at::kDouble).mm(vectors.to(at::kDouble).t());
  for (const std::int64_t i : {0, 1, 3}) {
    for (const std::int64_t j : {0, 1, 3}) EXPECT_NEAR(gram[i][j].item<double>(), i == j ? 1 : 0, 1e-6);
  }
  EXPECT_NEAR(gram[2][0].item<double>(), 0, 1e-6);
  at::Tensor powers = at::ones({2, 8});
  powers[1] *= 4;
  orthonormalise(flat(powers), 2);
  EXPECT_EQ(powers[1].abs().sum().item<float>(), 0) << "exactly dependent";
}

at::Tensor state(const Memory& memory, std::string_view name) {
  for (const NamedTensor& tensor : memory.save()) {
    if (tensor.name == name) return tensor.tensor.clone();
  }
  return {};
}

TEST(PowerSgdMemory, KeepsWhatTheRanksDidNotAgreeOn) {
  Ranks ranks(2);
  std::vector<PowerSgdMemory> memories(2);
  std::vector<at::Tensor> residuals(2, at::zeros({40, 50}));
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < 2; ++i) {
      inputs.push_back(memories[i].compensate(matrix(40, 50, 10 * step + i), round_at(step)).value());
      residuals[i] = residuals[i] + matrix(40, 50, 10 * step + i);
      EXPECT_TRUE(same_bits(inputs[i], residuals[i]));
    }
    std::vector<at::Tensor> means = ranks.run(inputs, round_at(step));
    for (std::size_t i = 0; i < 2; ++i) {
      memories[i]
          .update(round_at(step), SentPayload(*ranks.compressors[i], {}, round_at(step), means[i]), means[i])
          .value();
      residuals[i] = residuals[i] - means[i];
      EXPECT_TRUE(same_bits(state(memories[i], "residual.0"), residuals[i]));
    }
  }
}

TEST(PowerSgdMemory, TheMeanResidualStaysSmall) {
  Ranks ranks(2);
  std::vector<PowerSgdMemory> memories(2);
  const at::Tensor gradient = matrix(20, 30, 1);
  at::Tensor sent = at::zeros({20, 30});
  constexpr std::uint64_t steps = 200;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const at::Tensor difference = matrix(20, 30, 2 + step);
    std::vector<at::Tensor> means = ranks.run({memories[0].compensate(gradient + difference, round_at(step)).value(),
                                               memories[1].compensate(gradient - difference, round_at(step)).value()},
                                              round_at(step));
    for (std::size_t i = 0; i < 2; ++i)
      memories[i]
          .update(round_at(step), SentPayload(*ranks.compressors[i], {}, round_at(step), means[i]), means[i])
          .value();
    sent += means[0];
  }
  EXPECT_LT(distance(sent / static_cast<double>(steps), gradient), 0.15);
}

/// The memories of two ranks.
std::vector<std::unique_ptr<Ef21Memory>> ef21_memories(double momentum) {
  std::vector<std::unique_ptr<Ef21Memory>> memories;
  for (int i = 0; i < 2; ++i) memories.push_back(std::make_unique<Ef21Memory>(Ef21Memory::Options{momentum}));
  return memories;
}

TEST(Ef21Memory, FollowsItsFormulasAndFindsAConstantGradient) {
  Ranks ranks(2);
  const auto memories = ef21_memories(0);
  std::vector<at::Tensor> own(2, at::zeros({20, 30}));
  at::Tensor shared = at::zeros({20, 30});
  const std::vector<at::Tensor> gradients = {matrix(20, 30, 1), matrix(20, 30, 2)};
  for (std::uint64_t step = 0; step < 60; ++step) {
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < 2; ++i) {
      inputs.push_back(memories[i]->compensate(gradients[i], round_at(step)).value());
      EXPECT_TRUE(at::allclose(inputs[i], gradients[i] - own[i]));
    }
    std::vector<at::Tensor> means = ranks.run(inputs, round_at(step));
    shared = shared + means[0];
    for (std::size_t i = 0; i < 2; ++i) {
      own[i] = own[i] + decoded(*ranks.compressors[i], ranks.payloads[i], own[i], round_at(step));
      memories[i]
          ->update(round_at(step), SentPayload(*ranks.compressors[i], ranks.payloads[i], round_at(step), means[i]),
                   means[i])
          .value();
      EXPECT_TRUE(same_bits(means[i], shared)) << "the mean estimate goes to the optimizer";
      EXPECT_TRUE(same_bits(state(*memories[i], "own.0"), own[i]));
      EXPECT_TRUE(same_bits(state(*memories[i], "shared.0"), shared));
    }
  }
  EXPECT_LT(distance(shared, (gradients[0] + gradients[1]) / 2), 1e-2);
}

TEST(Ef21Memory, WithMomentumEstimatesARunningMean) {
  Ranks ranks(2);
  const auto memories = ef21_memories(0.75);
  EXPECT_TRUE(memories[0]->traits().replaces_momentum);
  EXPECT_FALSE(ef21_memories(0)[0]->traits().replaces_momentum);
  std::vector<at::Tensor> averages(2);
  std::vector<at::Tensor> own(2, at::zeros({20, 30}));
  at::Tensor shared = at::zeros({20, 30});
  for (std::uint64_t step = 0; step < 10; ++step) {
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor gradient = matrix(20, 30, 10 * step + i);
      averages[i] = step == 0 ? gradient : averages[i] * 0.75F + gradient * 0.25F;
      inputs.push_back(memories[i]->compensate(gradient, round_at(step)).value());
      EXPECT_TRUE(same_bits(inputs[i], averages[i] - own[i])) << step;
    }
    std::vector<at::Tensor> means = ranks.run(inputs, round_at(step));
    shared = shared + means[0];
    for (std::size_t i = 0; i < 2; ++i) {
      own[i] = own[i] + decoded(*ranks.compressors[i], ranks.payloads[i], own[i], round_at(step));
      memories[i]
          ->update(round_at(step), SentPayload(*ranks.compressors[i], ranks.payloads[i], round_at(step), means[i]),
                   means[i])
          .value();
      EXPECT_TRUE(same_bits(means[i], shared)) << "the mean estimate goes to the optimizer";
      EXPECT_TRUE(same_bits(state(*memories[i], "average.0"), averages[i]));
    }
  }
}

TEST(Ef21Memory, WithMomentumAveragesTheNoiseOfBatches) {
  const at::Tensor gradient = matrix(20, 30, 1);
  const auto error_with = [&](double momentum) {
    Ranks ranks(2, {.rank = 8});
    const auto memories = ef21_memories(momentum);
    std::vector<at::Tensor> means;
    for (std::uint64_t step = 0; step < 200; ++step) {
      std::vector<at::Tensor> inputs;
      for (std::size_t i = 0; i < 2; ++i) {
        inputs.push_back(memories[i]->compensate(gradient + 3 * matrix(20, 30, 10 * step + i), round_at(step)).value());
      }
      means = ranks.run(inputs, round_at(step));
      for (std::size_t i = 0; i < 2; ++i) {
        memories[i]
            ->update(round_at(step), SentPayload(*ranks.compressors[i], ranks.payloads[i], round_at(step), means[i]),
                     means[i])
            .value();
      }
    }
    return distance(means[0], gradient);
  };
  EXPECT_GT(error_with(0), 1.5) << "noise of 3 on either rank";
  EXPECT_LT(error_with(0.99), 0.5);
}

TEST(Ef21Memory, TakesMemoryForATensorOnce) {
  Ef21Memory memory({});
  PowerSgd powersgd({});
  std::vector<const void*> places;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const at::Tensor input = memory.compensate(matrix(20, 30, step), round_at(step)).value();
    places.push_back(input.data_ptr());
    at::Tensor mean = at::zeros({20, 30});
    memory
        .update(round_at(step), SentPayload(powersgd, encoded(powersgd, input, round_at(step)), round_at(step), mean),
                mean)
        .value();
  }
  EXPECT_THAT(places, ::testing::Each(places[0]));
  EXPECT_EQ(memory.save().size(), 2) << "what lives from compensate to update is not saved";
}

TEST(MeanMemories, SayWhatTheyDoNotFit) {
  const auto compressor = [](const char* name) { return builtin().make_compressor(name, nullptr).value(); };
  EXPECT_THAT(*PowerSgdMemory::misfit(*compressor("none")), ::testing::HasSubstr("sends everything"));
  EXPECT_THAT(*PowerSgdMemory::misfit(*compressor("topk")), ::testing::HasSubstr("drift apart"));
  EXPECT_THAT(*PowerSgdMemory::misfit(*compressor("chunk")), ::testing::HasSubstr("drift apart"));
  EXPECT_THAT(*PowerSgdMemory::misfit(*compressor("fp16")), ::testing::HasSubstr("rounded at every rank"));
  EXPECT_FALSE(PowerSgdMemory::misfit(*compressor("powersgd")));
  EXPECT_FALSE(PowerSgdMemory::misfit(*compressor("randomk")));
  EXPECT_THAT(*Ef21Memory::misfit(*compressor("none")), ::testing::HasSubstr("sends everything"));
  EXPECT_FALSE(Ef21Memory::misfit(*compressor("topk")));
  EXPECT_FALSE(Ef21Memory::misfit(*compressor("powersgd")));
}

}  // namespace
}  // namespace weir::compressors::test
