#include "training/models/torch_script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "folder.hpp"
#include "protocol/worker_environment.hpp"
#include "ranks.hpp"
#include "training/models/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/precision.hpp"
#include "training/servers/buffers.hpp"
#include "training/shapes.hpp"

namespace weir::training {
namespace {

using testing::Folder;
using ::testing::HasSubstr;

constexpr ExampleShape small{1, 8, 8, 4};

/// Names a folder as the operator of a node does, for the duration of a test.
class TorchScriptModel : public ::testing::Test {
 protected:
  TorchScriptModel() { ::setenv(variable.data(), folder_.path().c_str(), 1); }
  ~TorchScriptModel() override { ::unsetenv(variable.data()); }

  static constexpr std::string_view variable = protocol::worker_environment::modules;
  const Folder folder_;
};

/// A linear layer of 64 inputs, as TorchScript.
torch::jit::Module linear(std::int64_t outputs = 4) {
  torch::manual_seed(1);
  torch::jit::Module module("Linear");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", (torch::randn({outputs, 64}) / 8).requires_grad_(), false);
  module.register_parameter("bias", torch::zeros({outputs}).requires_grad_(), false);
  module.register_buffer("calls", torch::zeros({3, 5}));
  module.define(R"(
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls.add_(1)
        return torch.linear(x.flatten(1), self.weight, self.bias)
  )");
  return module;
}

std::string bytes_of(const torch::jit::Module& module) {
  std::ostringstream out;
  module.save(out);
  return out.str();
}

Result<std::unique_ptr<Model>> make(const std::string& file, const ExampleShape& shape = small) {
  return make_model("torchscript", {{"file", file}}, shape, 1);
}

TEST_F(TorchScriptModel, IsAModelLikeOthers) {
  folder_.write("linear.pt", bytes_of(linear()));
  const auto model = make("linear.pt").value();
  ASSERT_EQ(model->parameters().size(), 2u);
  EXPECT_EQ(model->parameters()[0].name, "weight");
  EXPECT_EQ(model->decays(), (std::vector<bool>{true, false}));
  ASSERT_EQ(model->buffers().size(), 1u);
  EXPECT_EQ(model->buffers()[0].tensor[2][4].item<float>(), 0) << "trying it out leaves no trace";
  const auto input = torch::randn({3, 1, 8, 8});
  const auto expected = torch::linear(input.flatten(1), linear().attr("weight").toTensor());
  EXPECT_TRUE(model->forward(input).allclose(expected));
  EXPECT_EQ(model->buffers()[0].tensor[2][4].item<float>(), 1);
  model->set_training(false);
  model->forward(input);
  EXPECT_EQ(model->buffers()[0].tensor[2][4].item<float>(), 1);
}

TEST_F(TorchScriptModel, ComputesInThePrecisionOfTheJob) {
  folder_.write("linear.pt", bytes_of(linear()));
  const auto model = make("linear.pt").value();
  const auto input = torch::randn({3, 1, 8, 8});
  const auto rounded_to_16_bits = [](const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat).equal(x); };
  // More than once: TorchScript compiles anew what it has seen run.
  for (int i = 0; i < 4; ++i) {
    const auto exact = logits_of(*model, input, protocol::Precision::float32);
    const auto rounded = logits_of(*model, input, protocol::Precision::bfloat16);
    EXPECT_FALSE(rounded_to_16_bits(exact));
    EXPECT_TRUE(rounded_to_16_bits(rounded));
    EXPECT_TRUE(rounded.allclose(exact, 0.02, 0.02));
    rounded.sum().backward();
  }
  EXPECT_EQ(model->parameters()[0].tensor.grad().scalar_type(), at::kFloat);
}

class Losses final : public Progress {
 public:
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const Replica&, const StepRecord& record) override {
    losses.push_back(record.loss);
    return {};
  }
  std::vector<double> losses;
};

/// One that makes a new tensor of the statistic of its inputs in every step.
torch::jit::Module replacing() {
  torch::jit::Module module("Replacing");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", torch::zeros({4, 64}).requires_grad_(), false);
  module.register_parameter("bias", torch::zeros({4}).requires_grad_(), false);
  module.register_buffer("mean", torch::zeros({1}));
  module.define(R"(
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = self.mean + x.mean()
        return torch.linear(x.flatten(1), self.weight, self.bias)
  )");
  return module;
}

/// A statistic that a module assigns anew, in place of the tensor that it had, is exchanged like others.
TEST_F(TorchScriptModel, StatisticsThatItReplacesAreExchanged) {
  folder_.write("replacing.pt", bytes_of(replacing()));
  const std::vector<protocol::Choice> of_modes = {
      {"local_sgd", {{"period", 3}}}, {"diloco", {{"period", 4}}}, {"diloco", {{"period", 4}, {"delay", 1}}}};
  for (const auto& mode : of_modes) {
    auto spec = testing::small_job("none");
    spec.model = {"torchscript", {{"file", "replacing.pt"}}};
    spec.training.mode = mode;
    spec.compression.apply_to = "models";
    auto group = collectives::in_process_group(2);
    std::vector<Losses> losses(2);
    std::vector<double> means(2);
    testing::run_ranks(2, [&](std::uint32_t rank) {
      auto replica = Replica::make(spec, rank, 2).value();
      ASSERT_TRUE(replica->join(*group[rank]));
      const auto done = replica->mode->train(*replica, losses[rank]);
      ASSERT_TRUE(done) << done.error().message();
      const auto buffers = replica->model->buffers();
      const auto mean = std::ranges::find(buffers, "mean", &NamedTensor::name);
      ASSERT_NE(mean, buffers.end());
      means[rank] = mean->tensor.item<double>();
      const auto saved = replica->mode->save().model;  // empty: as the replica has it
      const auto common = std::ranges::find(saved, "mean", &NamedTensor::name);
      EXPECT_EQ(common == saved.end() ? means[rank] : common->tensor.item<double>(), means[rank]);
      replica.reset();
      group[rank]->close();
    });
    EXPECT_EQ(means[0], means[1]) << mode.name << mode.params;
    EXPECT_NE(means[0], 0) << mode.name << mode.params;
  }
}

TEST_F(TorchScriptModel, StatisticsThatItReplacesAreInTheModelOfGossip) {
  folder_.write("replacing.pt", bytes_of(replacing()));
  auto spec = testing::small_job("none");
  spec.model = {"torchscript", {{"file", "replacing.pt"}}};
  spec.training.mode = {"gossip", {}};
  auto group = collectives::in_process_group(3);
  std::vector<Losses> losses(3);
  std::vector<double> own(3);
  std::vector<double> saved(3);
  testing::run_ranks(3, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 3).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    const auto done = replica->mode->train(*replica, losses[rank]);
    ASSERT_TRUE(done) << done.error().message();
    const auto mean_in = [](const std::vector<NamedTensor>& tensors) {
      return std::ranges::find(tensors, "mean", &NamedTensor::name)->tensor.item<double>();
    };
    own[rank] = mean_in(replica->model->buffers());
    saved[rank] = mean_in(replica->mode->save().model);
    replica.reset();
    group[rank]->close();
  });
  const double mean = (own[0] + own[1] + own[2]) / 3;
  EXPECT_NE(mean, 0);
  for (const double of_rank : saved) EXPECT_NEAR(of_rank, mean, 1e-4 * std::abs(mean));
}

TEST_F(TorchScriptModel, Learns) {
  folder_.write("linear.pt", bytes_of(linear()));
  auto spec = testing::small_job("topk");
  spec.model = {"torchscript", {{"file", "linear.pt"}}};
  auto group = collectives::in_process_group(2);
  std::vector<Losses> losses(2);
  testing::run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    const auto done = modes().make("sync", nullptr).value()->train(*replica, losses[rank]);
    ASSERT_TRUE(done) << done.error().message();
    replica.reset();
    group[rank]->close();
  });
  ASSERT_EQ(losses[0].losses.size(), 32u);
  EXPECT_LT(losses[0].losses.back(), 0.7 * losses[0].losses.front());
}

TEST_F(TorchScriptModel, OnlyTheOperatorSaysWhere) {
  for (const char* file : {"../linear.pt", "/etc/passwd", ".hidden", "a/b", ".."}) {
    const auto made = make(file);
    ASSERT_FALSE(made) << file;
    EXPECT_EQ(made.error().code, Errc::invalid_argument);
    EXPECT_THAT(made.error().context, HasSubstr("file must be a name in the directory of the node's operator"));
    EXPECT_EQ(parameter_shapes("torchscript", {{"file", file}}, small).error().code, Errc::invalid_argument);
  }
  EXPECT_TRUE(parameter_shapes("torchscript", {{"file", "linear.pt"}}, small).value().empty()) << "nobody has read it";
  ::unsetenv(variable.data());
  EXPECT_THAT(make("linear.pt").error().context, HasSubstr("its operator names one with `weir node --modules DIR`"));
}

TEST_F(TorchScriptModel, SaysWhatIsWrongWithAFile) {
  const auto refusal = [&](const std::string& bytes, const ExampleShape& shape = small) {
    folder_.write("a.pt", bytes);
    const auto made = make("a.pt", shape);
    EXPECT_FALSE(made);
    return made ? Error() : made.error();
  };
  EXPECT_EQ(make("none.pt").error().code, Errc::not_found);
  EXPECT_THAT(make("none.pt").error().context, HasSubstr("none.pt: No such file or directory; its operator puts"));
  const std::string good = bytes_of(linear());
  for (const auto& bytes : {std::string(), std::string("hello"), good.substr(0, good.size() / 2), good.substr(100)}) {
    const auto error = refusal(bytes);
    EXPECT_EQ(error.code, Errc::malformed);
    EXPECT_THAT(error.context, HasSubstr("a.pt: LibTorch cannot read it as TorchScript: "));
    EXPECT_EQ(error.context.find('\n'), std::string::npos) << "one sentence";
    EXPECT_THAT(error.context, HasSubstr("torch.jit.script(model).save"));
  }
  EXPECT_THAT(refusal(bytes_of(linear(5))).context,
              HasSubstr("for two examples of 1 x 8 x 8 it returns 2 x 5 and not the 2 x 4 that the dataset asks for"));
  EXPECT_EQ(refusal(good, {1, 7, 8, 4}).code, Errc::invalid_argument) << "it does not run on other images";
  EXPECT_THAT(
      refusal(good, {1, 7, 8, 4}).context,
      HasSubstr(
          "for two examples of 1 x 7 x 8, as the dataset has them, it does not run: RuntimeError: mat1 and mat2"));
  const auto with = [](const at::Tensor& parameter, const std::string& code) {
    torch::jit::Module module("M");
    module.register_attribute("training", c10::BoolType::get(), true);
    if (parameter.defined()) module.register_parameter("w", at::Tensor(parameter).requires_grad_(), false);
    module.define(code);
    return bytes_of(module);
  };
  const std::string zeros = "def forward(self, x):\n  return torch.zeros([x.size(0), 4])\n";
  EXPECT_THAT(refusal(with({}, zeros)).context, HasSubstr("it has no parameters to train"));
  EXPECT_THAT(refusal(with(torch::zeros({4}), zeros)).context, HasSubstr("does not depend on its parameters"));
  EXPECT_THAT(refusal(with(torch::zeros({4}, at::kDouble), zeros)).context, HasSubstr("w is not of contiguous"));
  EXPECT_THAT(refusal(with(torch::zeros({4, 1}).expand({4, 4}), zeros)).context, HasSubstr("w is not of contiguous"));
  EXPECT_THAT(refusal(with(torch::zeros({4}), "def forward(self, x):\n  return 3\n")).context, HasSubstr("a.pt"));
  EXPECT_THAT(refusal(with(torch::zeros({4}), "def forward(self, x, y):\n  return x\n")).context, HasSubstr("a.pt"));
  EXPECT_THAT(refusal(with(torch::zeros({4}), "def other(self, x):\n  return x\n")).context, HasSubstr("a.pt"));
}

/// Changes the file's own account of the extents of the weight, 4 x 64, and of the buffer, 3 x 5, wherever it stands.
TEST_F(TorchScriptModel, AFileThatLiesAboutItsShapesIsRefused) {
  const std::string good = bytes_of(linear());
  for (const auto& extents : {std::string{'K', 4, 'K', 64}, std::string{'K', 3, 'K', 5}}) {  // as pickle writes them
    int found = 0;
    for (auto at = good.find(extents); at != std::string::npos; at = good.find(extents, at + 1)) {
      for (const char rows : {'\x05', '\x7f'}) {
        auto lie = good;
        lie[at + 1] = rows;
        folder_.write("lie.pt", lie);
        const auto made = make("lie.pt");
        ASSERT_FALSE(made);
        EXPECT_THAT(made.error().context, HasSubstr("larger than its data"));
      }
      ++found;
    }
    EXPECT_GT(found, 0);
  }
}

/// A frozen embedding and a causal mask are kept, and nobody takes the mean of theirs. Servers do that in the order of
/// the numbers, whatever the order in memory is.
TEST_F(TorchScriptModel, OnlyWhatFollowsExamplesIsAveraged) {
  auto module = linear();
  module.register_parameter("frozen", torch::ones({3}), false);
  module.register_buffer("mask", torch::full({2, 2}, -std::numeric_limits<float>::infinity()).triu(1));
  module.register_buffer("turned", torch::zeros({2, 3}).t());
  folder_.write("masked.pt", bytes_of(module));
  const auto model = make("masked.pt").value();
  EXPECT_EQ(model->buffers().size(), 4u);
  const auto statistics = model->statistics();
  ASSERT_EQ(statistics.size(), 2u);
  EXPECT_EQ(statistics[0].name, "calls");
  ASSERT_EQ(statistics[1].name, "turned");
  const at::Tensor values = torch::arange(6, torch::kFloat).view({3, 2});
  servers::MeanBuffers mean(2);
  for (const float factor : {1.0F, 3.0F}) {
    const torch::NoGradGuard no_grad;
    at::Tensor(statistics[1].tensor).copy_(values * factor);
    Bytes bytes;
    servers::append_buffers(*model, bytes);
    ASSERT_TRUE(mean.take(factor == 1 ? 0 : 1, bytes, *model));
  }
  mean.put_into(*model);
  EXPECT_TRUE(model->statistics()[1].tensor.equal(values * 2)) << model->statistics()[1].tensor;
}

TEST_F(TorchScriptModel, ABufferThatACheckpointCannotKeepIsNamed) {
  auto kept = linear();
  kept.register_buffer("table", torch::zeros({7}, torch::kShort));
  folder_.write("kept.pt", bytes_of(kept));
  EXPECT_TRUE(make("kept.pt"));
  auto complex = linear();
  complex.register_buffer("turns", torch::zeros({7}, torch::kComplexFloat));
  folder_.write("complex.pt", bytes_of(complex));
  const auto refused = make("complex.pt");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("its buffer turns"));
}

/// Says of the weight that it is 64 x 64, and of its data that it is as long: LibTorch believes both.
TEST_F(TorchScriptModel, DataThatIsShorterThanTheFileSaysIsRefused) {
  auto lie = bytes_of(linear());
  const auto replace = [&lie](const std::string& from, const std::string& to) {
    int found = 0;
    for (auto at = lie.find(from); at != std::string::npos; at = lie.find(from, at + 1), ++found) {
      lie.replace(at, from.size(), to);
    }
    EXPECT_GT(found, 0);
  };
  replace({'K', 4, 'K', 64}, {'K', 64, 'K', 64});
  replace({'M', 0, 1}, {'M', 0, 16});
  folder_.write("lie.pt", lie);
  const auto made = make("lie.pt");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().context, HasSubstr("larger than its data"));
}

/// A module with one parameter that has this code, compiled here.
std::string with_code(const std::string& code) {
  torch::jit::Module module("M");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("w", torch::zeros({4}).requires_grad_(), false);
  module.define(code);
  return bytes_of(module);
}

/// Ends a process that a test has made for this, as workers end, with 0 if the module was refused with these words.
[[noreturn]] void leave_with(const Result<std::unique_ptr<Model>>& made, Errc expected, const char* words,
                             const Folder& folder) {
  std::filesystem::remove_all(folder.path());
  const bool refused = !made && made.error().code == expected && made.error().context.find(words) != std::string::npos;
  std::cerr << (made ? "it was taken" : made.error().context) << '\n';
  std::_Exit(refused ? 0 : 1);
}

TEST_F(TorchScriptModel, CodeThatDoesNotEndIsGivenUp) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A loop whose result nobody used would be optimized away.
  const std::string loop = "    n = 1\n    while n > 0:\n        n = 3 - n\n    assert n < 0\n";
  const std::string forward = "def forward(self, x: Tensor) -> Tensor:\n";
  const std::string at_load =
      "def __getstate__(self) -> int:\n    return 1\n"
      "def __setstate__(self, state: int) -> None:\n";
  for (const auto& code : {forward + loop + "    return x\n", forward + "    return x\n" + at_load + loop}) {
    const auto end_in_time = [&] {
      folder_.write("loop.pt", with_code(code));
      leave_with(make_model("torchscript", {{"file", "loop.pt"}, {"load_seconds", 0.5}}, small, 1),
                 Errc::deadline_exceeded, "loop.pt: it could not be loaded and tried within 0.5 s, the parameter",
                 folder_);
    };
    EXPECT_EXIT(end_in_time(), ::testing::ExitedWithCode(0), "");
  }
}

TEST_F(TorchScriptModel, CodeThatOpensFilesIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<std::pair<std::string, const char*>> codes = {
      {"def forward(self, x: Tensor) -> Tensor:\n    torch.save(x, \"written\")\n    return x\n", "aten::save"},
      {"def forward(self, x: Tensor) -> Tensor:\n    return torch.from_file(\"/etc/passwd\", False, 8)\n",
       "aten::from_file"},
  };
  for (const auto& [code, operation] : codes) {
    const auto refuse = [&] {
      folder_.write("files.pt", with_code(code));
      leave_with(make("files.pt"), Errc::malformed, operation, folder_);
    };
    EXPECT_EXIT(refuse(), ::testing::ExitedWithCode(0), "");
  }
}

/// No byte of a file can end the process.
TEST_F(TorchScriptModel, DamagedFilesAreRefusedOrRun) {
  const std::string good = bytes_of(linear());
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 400) {
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    folder_.write("bad.pt", bad);
    refused += make("bad.pt") ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace weir::training
