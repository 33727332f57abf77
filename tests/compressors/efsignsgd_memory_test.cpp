#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

Compression make(const std::string& memory, const std::string& compressor = "efsignsgd") {
  const nlohmann::json none;
  return builtin()
      .make({.compressor = compressor, .params = none, .memory = memory, .memory_params = none, .setting = {}})
      .value();
}

Round round_with(std::uint64_t step, double learning_rate) {
  Round round = round_at(step);
  round.learning_rate = learning_rate;
  return round;
}

/// A round of one rank alone: gives what the optimizer multiplies by the learning rate.
at::Tensor run(Compression& compression, const at::Tensor& gradient, const Round& round) {
  const at::Tensor input = compression.memory->compensate(gradient, round).value();
  const Bytes payload = encoded(*compression.compressor, input, round);
  at::Tensor mean = decoded(*compression.compressor, payload, gradient, round);
  compression.memory->update(round, SentPayload(*compression.compressor, payload, round, mean), mean).value();
  return mean;
}

at::Tensor gradient_at(std::uint64_t step) { return gaussian(600, step + 50).reshape({20, 30}); }

/// Falls by steps, and is zero for a while.
double schedule(std::uint64_t step) { return step < 5 ? 0.1 : step < 10 ? 0.01 : step < 13 ? 0 : 0.05; }

TEST(EfSignSgdMemory, IsTheDefaultOfItsCompressor) { EXPECT_EQ(make("").memory->name(), "efsignsgd"); }

// What reached the weights and what is owed to them add up to what plain SGD would have done with every gradient.
TEST(EfSignSgdMemory, OwesTheWeightsTheSameWhateverTheLearningRateDoes) {
  for (const char* compressor : {"efsignsgd", "topk"}) {
    Compression compression = make("efsignsgd", compressor);
    at::Tensor plain = at::zeros({20, 30}, at::kDouble);
    at::Tensor reached = at::zeros({20, 30}, at::kDouble);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const double rate = schedule(step);
      plain += rate * gradient_at(step).to(at::kDouble);
      reached += rate * run(compression, gradient_at(step), round_with(step, rate)).to(at::kDouble);
      const at::Tensor owed = plain - reached;
      // Compensating a gradient of zero shows the residual; in the units of another learning rate it is another one.
      Compression copy = make("efsignsgd", compressor);
      std::vector<NamedTensor> state;
      for (const NamedTensor& it : compression.memory->save()) state.push_back({it.name, it.tensor.clone()});
      ASSERT_TRUE(copy.memory->restore(state));
      const at::Tensor residual = copy.memory->compensate(at::zeros({20, 30}), round_with(step + 1, 0.002)).value();
      ASSERT_TRUE(at::allclose(0.002 * residual.to(at::kDouble), owed, 1e-4, 1e-5)) << compressor << step;
    }
  }
}

TEST(EfSignSgdMemory, IsTheResidualWhileTheLearningRateIsConstant) {
  Compression left = make("efsignsgd");
  Compression right = make("residual");
  for (std::uint64_t step = 0; step < 6; ++step) {
    EXPECT_TRUE(same_bits(run(left, gradient_at(step), round_with(step, 0.3)),
                          run(right, gradient_at(step), round_with(step, 0.3))));
  }
}

TEST(EfSignSgdMemory, SendsTheBareGradientWhileTheLearningRateIsZero) {
  Compression compression = make("efsignsgd");
  run(compression, gradient_at(0), round_with(0, 0.1));
  const at::Tensor gradient = gradient_at(1);
  EXPECT_TRUE(same_bits(compression.memory->compensate(gradient, round_with(1, 0)).value(), gradient));
}

TEST(EfSignSgdMemory, GoesOnBitForBitAcrossAChangeOfTheLearningRate) {
  Compression first = make("efsignsgd");
  for (std::uint64_t step = 0; step < 7; ++step) run(first, gradient_at(step), round_with(step, schedule(step)));
  Compression second = make("efsignsgd");
  run(second, gradient_at(77), round_with(0, 3.0));
  std::vector<NamedTensor> state;
  for (const NamedTensor& it : first.memory->save()) state.push_back({it.name, it.tensor.clone()});
  ASSERT_TRUE(second.memory->restore(state));
  for (std::uint64_t step = 7; step < 18; ++step) {
    const Round round = round_with(step, schedule(step));
    EXPECT_TRUE(same_bits(run(first, gradient_at(step), round), run(second, gradient_at(step), round))) << step;
  }
}

TEST(EfSignSgdMemory, RefusesAKeptLearningRateThatIsNotOneNumber) {
  Compression compression = make("efsignsgd");
  const std::vector<NamedTensor> state = {{"residual.0", at::zeros({20, 30})}, {"learning_rate.0", at::zeros({2})}};
  ASSERT_TRUE(compression.memory->restore(state));
  EXPECT_EQ(compression.memory->compensate(gradient_at(0), round_with(0, 0.1)).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace weir::compressors::test
