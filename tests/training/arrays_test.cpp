#include "training/datasets/arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/errc.hpp"
#include "folder.hpp"
#include "peak_memory.hpp"
#include "training/datasets/array_file.hpp"
#include "training/datasets/catalog.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;
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

/// A tensor of bytes in a header, whose data begin where those before it end.
nlohmann::json entry(std::uint64_t& begin, const std::vector<std::uint64_t>& shape) {
  std::uint64_t end = begin;
  std::uint64_t count = 1;
  for (const auto extent : shape) count *= extent;
  end += count;
  return {{"dtype", "U8"}, {"shape", shape}, {"data_offsets", {std::exchange(begin, end), end}}};
}

/// The beginning of a safetensors file whose length field says `length`.
std::string beginning(std::uint64_t length, const std::string& header) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 0xFF));
  return bytes + header;
}

std::string beginning(const nlohmann::json& header) {
  const auto text = header.dump();
  return beginning(text.size(), text);
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
  fs::resize_file(whole, fs::file_size(whole) - 1);
  EXPECT_EQ(train(whole).error().code, Errc::malformed);
}

/// What a file says that has this beginning and nothing behind it that may be read.
std::string refusal_of_header(const std::string& beginning, std::uint64_t data_bytes) {
  const ArrayFile file{beginning.size() + data_bytes,
                       [&](std::uint64_t offset, std::uint64_t count) -> Result<Segment> {
                         if (offset + count > beginning.size()) return Error{Errc::io, "the data were read"};
                         const auto bytes = std::as_bytes(std::span(beginning)).subspan(offset, count);
                         return Segment::own(Bytes(bytes.data(), bytes.data() + bytes.size()));
                       }};
  const auto arrays = read_arrays(file, "train", {.channels = 1, .height = 2, .width = 2, .classes = 3});
  EXPECT_FALSE(arrays);
  return arrays ? std::string() : arrays.error().context;
}

TEST(Arrays, WhatAHeaderClaimsIsCheckedBeforeTheDataAreRead) {
  constexpr std::uint64_t gibibyte = 1 << 30;
  EXPECT_THAT(refusal_of_header(beginning(std::uint64_t{1} << 40, ""), gibibyte),
              HasSubstr("the header is longer than 16 MiB"));
  EXPECT_THAT(refusal_of_header(beginning(4096, "{}"), 0), HasSubstr("the file ends within the header"));
  std::uint64_t end = 0;
  auto header = [&](const std::vector<std::uint64_t>& inputs, std::uint64_t classes) {
    end = 0;
    nlohmann::json all{{"train_inputs", entry(end, inputs)}};
    all["train_classes"] = entry(end, {classes});
    return all;
  };
  auto given = header({gibibyte, 1024, 1024}, 1);
  EXPECT_THAT(refusal_of_header(beginning(given), gibibyte), HasSubstr("data_offsets lie outside the file"));
  given = header({gibibyte / 4, 2, 2}, 7);
  EXPECT_THAT(refusal_of_header(beginning(given), gibibyte), HasSubstr("data_offsets lie outside the file"));
  EXPECT_THAT(refusal_of_header(beginning(given), end + 1), HasSubstr("bytes after the last tensor"));
  EXPECT_THAT(refusal_of_header(beginning(given), end), HasSubstr("268435456 examples, 'train_classes' has 7"));
  given = header({gibibyte, 2, 3}, gibibyte);
  EXPECT_THAT(refusal_of_header(beginning(given), end), HasSubstr("has the shape [1073741824, 2, 3]"));
  given = header({4 * gibibyte, 2, 2}, 4 * gibibyte);
  EXPECT_THAT(refusal_of_header(beginning(given), end), HasSubstr("4294967296 examples; at most 4294967295 are read"));
  given = header({gibibyte, 2, 2}, gibibyte);
  EXPECT_EQ(refusal_of_header(beginning(given), end), "the data were read");
}

/// Files that are nearly all hole: reading them whole would take time and memory.
TEST(Arrays, OnlyTheExamplesOfOnePartAreRead) {
  const Folder folder;
  const auto path = folder / "data.safetensors";
  constexpr std::uint64_t hole = std::uint64_t{2} << 30;
  const auto before = testing::peak_memory();
  folder.write("data.safetensors", beginning(std::uint64_t{1} << 40, ""));
  fs::resize_file(path, hole);
  EXPECT_THAT(train(path).error().context, HasSubstr("the header is longer than 16 MiB"));

  std::uint64_t end = 0;
  nlohmann::json header{{"test_inputs", entry(end, {hole >> 20, 1024, 1024})}};
  header["test_classes"] = entry(end, {hole >> 20});
  header["train_classes"] = entry(end, {2});
  header["train_inputs"] = entry(end, {2, 1024, 1024});
  folder.write("data.safetensors", beginning(header));
  fs::resize_file(path, fs::file_size(path) + end);
  const auto examples = train(path, {{"height", 1024}, {"width", 1024}}).value();
  EXPECT_EQ(examples->classes().size(), 2u);
  EXPECT_LT(testing::peak_memory() - before, hole / 2);

  fs::resize_file(path, ArraysDataset::file_bytes_max + 1);
  EXPECT_THAT(train(path).error().context,
              HasSubstr("has 17179869185 bytes; a file of arrays has at most 17179869184"));
}

}  // namespace
}  // namespace weir::training
