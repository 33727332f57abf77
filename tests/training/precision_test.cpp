#include "training/precision.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "esync_job.hpp"
#include "mode_runs.hpp"
#include "served_job.hpp"
#include "training/models/catalog.hpp"

namespace weir::training::testing {
namespace {

using protocol::Precision;

/// What a product is computed in at present.
at::ScalarType numbers() {
  const auto matrix = at::ones({2, 2});
  return at::mm(matrix, matrix).scalar_type();
}

TEST(Autocast, IsOnWhileItLives) {
  EXPECT_EQ(numbers(), at::kFloat);
  {
    const Autocast outer(at::kCPU);
    EXPECT_EQ(numbers(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU);
      EXPECT_EQ(numbers(), at::kBFloat16);
    }
    { const Autocast of_another_device(at::kCUDA); }
    EXPECT_EQ(numbers(), at::kBFloat16);
    std::thread([] { EXPECT_EQ(numbers(), at::kFloat) << "in another thread"; }).join();
  }
  EXPECT_EQ(numbers(), at::kFloat);
  try {
    const Autocast autocast(at::kCPU);
    throw std::runtime_error("a model that fails");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(numbers(), at::kFloat);
  }
}

TEST(Autocast, TheNextOneSeesWhatAnOptimizerHasChanged) {
  auto weights = at::ones({2, 2}).set_requires_grad(true);
  const auto product = [&] {
    const Autocast autocast(at::kCPU);
    return at::mm(at::ones({2, 2}), weights)[0][0].item<float>();
  };
  EXPECT_EQ(product(), 2);
  {
    const at::NoGradGuard optimizer_step;
    weights.fill_(3);
  }
  EXPECT_EQ(product(), 6);
}

bool is_rounded(const at::Tensor& tensor) { return tensor.to(at::kBFloat16).to(at::kFloat).equal(tensor); }

TEST(Precision, LogitsAreRoundedAndGradientsAreNot) {
  const auto model = make_model("mlp", nullptr, {1, 8, 8, 10}, 1).value();
  const auto input = at::randn({4, 1, 8, 8});
  const auto exact = logits_of(*model, input, Precision::float32);
  EXPECT_FALSE(is_rounded(exact));
  EXPECT_TRUE(exact.equal(model->forward(input)));
  const auto rounded = logits_of(*model, input, Precision::bfloat16);
  EXPECT_EQ(rounded.scalar_type(), at::kFloat);
  EXPECT_TRUE(is_rounded(rounded));
  EXPECT_LT((rounded - exact).abs().max().item<float>(), 0.02f * exact.abs().max().item<float>());
  at::cross_entropy_loss(rounded, at::zeros({4}, at::kLong)).backward();
  for (const auto& [name, tensor] : model->parameters()) {
    EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
    EXPECT_EQ(tensor.grad().scalar_type(), at::kFloat) << name;
  }
}

TEST(Precision, IsForProcessorsAndCuda) {
  EXPECT_TRUE(check_precision(Precision::bfloat16, at::kCPU));
  EXPECT_TRUE(check_precision(Precision::bfloat16, at::Device(at::kCUDA, 0)));
  EXPECT_TRUE(check_precision(Precision::float32, at::Device(at::kPrivateUse1, 0)));
  const auto refused = check_precision(Precision::bfloat16, at::Device(at::kPrivateUse1, 0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  EXPECT_EQ(refused.error().context,
            "training.precision \"bfloat16\" is for processors and for CUDA, and this worker computes on "
            "privateuseone:0");
}

protocol::JobSpec in(Precision precision, protocol::JobSpec spec) {
  spec.training.precision = precision;
  return spec;
}

/// The loss of the first batch of the first worker.
double first_loss(const protocol::JobSpec& spec) {
  const std::string& mode = spec.training.mode.name;
  if (mode == "esync") {
    EsyncJob job(spec, 2);
    job.run();
    EXPECT_TRUE(job.results[0]) << job.results[0].error().message();
    return job.watchers[0].records.front().loss;
  }
  if (mode == "async" || mode == "ssp" || mode == "backup") {
    ServedJob job(spec, 2);
    job.run();
    return job.told[0]->records.front().loss;
  }
  const auto outcome = train(spec, mode == "local" ? 1 : 2);
  EXPECT_TRUE(outcome.results[0]) << outcome.results[0].error().message();
  return outcome.watchers[0].records.front().loss;
}

std::vector<std::string> names_of_modes() {
  std::vector<std::string> names;
  for (const auto& mode : modes().entries()) names.push_back(mode.name);
  return names;
}

class PrecisionOfAMode : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Precision, PrecisionOfAMode, ::testing::ValuesIn(names_of_modes()),
                         [](const auto& info) { return info.param; });

/// All begin with the same model and the same batch.
TEST_P(PrecisionOfAMode, DecidesWhatItsForwardPassesComputeIn) {
  auto spec = small_job("none");
  spec.training.mode = {GetParam(), nlohmann::json::object()};
  if (GetParam() == "backup") spec.training.mode.params = {{"backup_workers", 0}};
  spec.training.max_steps = 4;
  const double exact = first_loss(in(Precision::float32, spec));
  const double rounded = first_loss(in(Precision::bfloat16, spec));
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 0.02 * exact);
}

TEST(Precision, RanksStayEqualAndATrainingGoesOnWithTheSameBits) {
  const auto spec = in(Precision::bfloat16, with_batch_norm(small_job("dgc")));
  const auto whole = train(spec, 2);
  EXPECT_TRUE(same(whole.watchers[0].models.back(), whole.watchers[1].models.back()));
  const auto stopped = train(spec, 2, {.stop_after = 3});
  const auto resumed = train(spec, 2, {.checkpoint = stopped.checkpoint()});
  ASSERT_TRUE(resumed.results[0]) << resumed.results[0].error().message();
  EXPECT_TRUE(same(resumed.watchers[0].models.back(), whole.watchers[0].models.back()));
}

TEST(Precision, ATrainingGoesOnInTheOther) {
  for (const auto& [first, then] :
       {std::pair(Precision::float32, Precision::bfloat16), std::pair(Precision::bfloat16, Precision::float32)}) {
    const auto stopped = train(in(first, small_job("dgc")), 2, {.stop_after = 11});
    const auto resumed = train(in(then, small_job("dgc")), 2, {.checkpoint = stopped.checkpoint()});
    ASSERT_TRUE(resumed.results[0]) << resumed.results[0].error().message();
    EXPECT_TRUE(*resumed.results[0]);
  }
}

}  // namespace
}  // namespace weir::training::testing
