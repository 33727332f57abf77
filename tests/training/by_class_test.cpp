// Each of four workers has examples of one class only: what all of them learn together, none could learn alone.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "mode_runs.hpp"
#include "protocol/safetensors.hpp"
#include "served_job.hpp"
#include "training/datasets/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

using testing::served_job;
using testing::ServedJob;

using Tensors = std::vector<at::Tensor>;

constexpr std::uint32_t workers = 4;
constexpr std::uint64_t steps = 160;
constexpr std::uint64_t evaluated_every = 4;
constexpr std::size_t evaluations = 10;  ///< the last ones, of which the mean counts

/// A model that knows the classes of one worker is right in a quarter of the tests, one that knows those of two in half
/// of them, and one that knows those of three in three quarters.
constexpr double bound = 0.6;
constexpr double bound_alone = 0.4;

struct Case {
  std::string name;
  std::string mode;
  nlohmann::json params;
  std::string compressor = "none";
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

protocol::JobSpec spec_of(const Case& of) {
  auto spec = served_job(of.mode, of.params, of.compressor);
  spec.dataset.partition = "by_class";
  spec.dataset.choice.params["test_examples"] = 256;
  spec.training.epochs = 1000;
  spec.training.max_steps = steps;
  spec.evaluate_every_steps = evaluated_every;
  return spec;
}

/// Of a model with these parameters, on the tests of all classes.
double accuracy_of(const protocol::JobSpec& spec, const Tensors& parameters) {
  auto local = spec;
  local.training.mode = {"sync", {}};
  const auto replica = Replica::make(local, 0, 1).value();
  const auto& data = spec.dataset.choice;
  const auto tests = datasets().make(data.name, data.params, "").value()->test().value();
  std::vector<std::uint32_t> all(tests->classes().size());
  std::iota(all.begin(), all.end(), 0U);
  const auto batch = tests->batch(all);
  const at::NoGradGuard no_grad;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor(replica->model->parameters()[p].tensor).copy_(parameters[p]);
  }
  const auto right = replica->model->forward(batch.input).argmax(1).eq(batch.target);
  return right.to(at::kDouble).mean().item<double>();
}

/// The mean over the models that a training had at its end.
double mean_accuracy(const protocol::JobSpec& spec, const std::vector<Tensors>& models) {
  EXPECT_GE(models.size(), evaluations);
  const auto last = std::min(models.size(), evaluations);
  double sum = 0;
  for (const auto& model : std::span(models).last(last)) sum += accuracy_of(spec, model);
  return sum / static_cast<double>(last);
}

/// What one of the workers learns from its own examples, which is what would become of all if the gradients of the
/// others were lost. As many models as there are steps.
std::vector<Tensors> learned_alone(protocol::JobSpec spec, std::uint32_t rank) {
  spec.training.mode = {"sync", {}};
  spec.compression.compressor = {"none", {}};
  const auto replica = Replica::make(spec, rank, workers).value();
  std::vector<Tensors> models;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto batch = replica->examples->batch(replica->sampler.examples(step));
    at::cross_entropy_loss(replica->model->forward(batch.input), batch.target).backward();
    std::vector<Mean> gradients;
    for (const auto& [name, tensor] : replica->model->parameters()) {
      gradients.push_back({tensor.grad().clone(), false, {}});
      at::Tensor(tensor).mutable_grad().reset();
    }
    replica->optimizer->step(gradients, replica->learning_rate);
    models.push_back(testing::cloned(replica->model->parameters()));
  }
  return models;
}

std::vector<Tensors> learned_in_sync(const protocol::JobSpec& spec) {
  const auto outcome = testing::train(spec, workers);
  for (const auto& result : outcome.results) EXPECT_TRUE(result) << result.error().message();
  return outcome.watchers[0].models;
}

/// The models of all evaluations, as the servers gave them.
std::vector<Tensors> learned_with_servers(const protocol::JobSpec& spec) {
  ServedJob job(spec, workers);
  job.run();
  std::vector<Tensors> models;
  for (const auto& [step, file] : job.first_server().models) {
    const auto read = protocol::read_safetensors(file).value();
    models.emplace_back();
    for (const auto& parameter : job.servers[0]->model->parameters()) {
      models.back().push_back(tensors_under(read, "model." + parameter.name).at(0).tensor);
    }
  }
  return models;
}

class ByClass : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Modes, ByClass,
    ::testing::Values(Case{"sync", "sync", nullptr}, Case{"sync_topk", "sync", nullptr, "topk"},
                      Case{"sync_dgc", "sync", nullptr, "dgc"}, Case{"async", "async", {{"servers", 2}}},
                      Case{"async_dgc", "async", {{"servers", 2}}, "dgc"},
                      Case{"dc_asgd", "async", {{"servers", 2}, {"delay_compensation", 0.04}}},
                      Case{"ssp", "ssp", {{"servers", 2}, {"staleness", 2}}},
                      Case{"ssp_dgc", "ssp", {{"servers", 2}, {"staleness", 2}}, "dgc"},
                      Case{"backup", "backup", {{"servers", 2}, {"backup_workers", 1}}},
                      Case{"backup_dgc", "backup", {{"servers", 2}, {"backup_workers", 1}}, "dgc"}),
    [](const auto& info) { return info.param.name; });

// In whatever order gradients come, and whosever are dropped by `backup`: those of three workers count at least.
TEST_P(ByClass, AllLearnWhatNoneCouldLearnAlone) {
  const auto spec = spec_of(GetParam());
  const auto models = GetParam().mode == "sync" ? learned_in_sync(spec) : learned_with_servers(spec);
  const double together = mean_accuracy(spec, models);
  RecordProperty("accuracy", std::to_string(together));
  EXPECT_GT(together, bound);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const double alone = mean_accuracy(spec, learned_alone(spec, rank));
    RecordProperty("accuracy_of_" + std::to_string(rank), std::to_string(alone));
    EXPECT_LT(alone, bound_alone) << "of worker " << rank << ", where all came to " << together;
  }
}

}  // namespace
}  // namespace weir::training
