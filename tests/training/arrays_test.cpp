#include "training/datasets/arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "folder.hpp"
#include "training/datasets/catalog.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

using testing::Folder;
using ::testing::HasSubstr;

const nlohmann::json small{{"channels", 2}, {"height", 3}, {"width", 4}, {"classes", 300}};

/// Writes the four tensors; those of the test are those of the training.
std::string write(const Folder& folder, const at::Tensor& inputs, const at::Tensor& classes) {
  TensorFile file;
  for (const std::string part : {"train_", "test_"}) file.add(part, {{"inputs", inputs}, {"classes", classes}});
  const auto bytes = file.write({}).value();
  folder.write("data.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return folder / "data.safetensors";
}

Result<std::unique_ptr<Examples>> train(const std::string& path, const nlohmann::json& params = small) {
  return datasets().make("arrays", params, path).value()->train();
}

TEST(Arrays, TakesFloatsAndBytes) {
  const Folder folder;
  torch::manual_seed(1);
  const auto inputs = torch::randn({5, 2, 3, 4});
  const auto classes = torch::tensor({299, 0, 256, 1, 2}, at::kInt);
  const std::vector<std::uint32_t> positions{2, 0};
  auto params = small;
  params["mean"] = 0.5;
  params["deviation"] = 2;
  auto examples = train(write(folder, inputs, classes), params).value();
  EXPECT_EQ(std::vector(examples->classes().begin(), examples->classes().end()),
            (std::vector<std::uint16_t>{299, 0, 256, 1, 2}));
  auto batch = examples->batch(positions);
  EXPECT_TRUE(batch.input.allclose((torch::stack({inputs[2], inputs[0]}) - 0.5) / 2, 1e-5, 1e-6));
  EXPECT_TRUE(batch.target.equal(torch::tensor({256, 299}, at::kLong)));

  const auto bytes = torch::randint(0, 256, {5, 2, 3, 4}, at::kByte);
  examples = train(write(folder, bytes, classes.to(at::kLong)), params).value();
  batch = examples->batch(positions);
  const auto expected = (torch::stack({bytes[2], bytes[0]}).to(at::kFloat) / 255 - 0.5) / 2;
  EXPECT_TRUE(batch.input.allclose(expected, 1e-5, 1e-6));
  EXPECT_TRUE(datasets().make("arrays", small, folder / "data.safetensors").value()->test());
}

TEST(Arrays, ExtentsOfOneMayBeLeftOut) {
  const Folder folder;
  const auto classes = torch::zeros({3}, at::kByte);
  const nlohmann::json grey{{"height", 3}, {"width", 4}};
  EXPECT_TRUE(train(write(folder, torch::zeros({3, 3, 4}), classes), grey));
  EXPECT_TRUE(train(write(folder, torch::zeros({3, 1, 3, 4}), classes), grey));
  EXPECT_FALSE(train(write(folder, torch::zeros({3, 4, 3}), classes), grey));
}

TEST(Arrays, RefusesWhatDoesNotFit) {
  const Folder folder;
  const auto refusal = [&](const at::Tensor& inputs, const at::Tensor& classes) {
    const auto examples = train(write(folder, inputs, classes));
    EXPECT_FALSE(examples);
    if (examples) return std::string();
    EXPECT_EQ(examples.error().code, Errc::malformed);
    return examples.error().context;
  };
  const auto inputs = torch::zeros({3, 2, 3, 4});
  const auto classes = torch::zeros({3}, at::kLong);
  EXPECT_THAT(refusal(torch::zeros({3, 2, 12}), classes),
              HasSubstr("'train_inputs' has the shape [3, 2, 12]; the dataset's parameters say [examples, 2, 3, 4]"));
  EXPECT_THAT(refusal(inputs.to(at::kDouble), classes), HasSubstr("of type F64; inputs are U8 or F32"));
  EXPECT_THAT(refusal(inputs, classes.to(at::kFloat)), HasSubstr("of type F32; classes are U8, I32 or I64"));
  EXPECT_THAT(refusal(inputs, torch::zeros({4}, at::kLong)),
              HasSubstr("'train_inputs' has 3 examples, 'train_classes' has 4"));
  EXPECT_THAT(refusal(inputs, torch::zeros({3, 1}, at::kLong)), HasSubstr("must have one dimension"));
  EXPECT_THAT(refusal(inputs, classes + 300), HasSubstr("has the class 300 at 0"));
  EXPECT_THAT(refusal(inputs, classes - 1), HasSubstr("has the class -1 at 0"));
  EXPECT_THAT(refusal(inputs / 0, classes), HasSubstr("not a finite number"));
  EXPECT_THAT(refusal(torch::zeros({0, 2, 3, 4}), torch::zeros({0}, at::kLong)), HasSubstr("has no examples"));
}

TEST(Arrays, RefusesOtherFiles) {
  const Folder folder;
  auto error = train(folder / "none").error();
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_THAT(error.context, HasSubstr("none: No such file or directory; dataset.path must be a safetensors file"));
  folder.write("page", "<html>404</html>");
  error = train(folder / "page").error();
  EXPECT_EQ(error.code, Errc::malformed);
  folder.write("empty", "");
  EXPECT_EQ(train(folder / "empty").error().code, Errc::malformed);
  TensorFile file;
  file.add("", {{"inputs", torch::zeros({1})}});
  const auto bytes = file.write({}).value();
  folder.write("other", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_THAT(train(folder / "other").error().context, HasSubstr("there is no tensor 'train_inputs'; there is inputs"));
  const auto whole = write(folder, torch::zeros({3, 2, 3, 4}), torch::zeros({3}, at::kLong));
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) - 1);
  EXPECT_EQ(train(whole).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::training
