#include "training/datasets/data_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/errc.hpp"
#include "folder.hpp"
#include "training/datasets/catalog.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using ::testing::HasSubstr;

TEST(DataFile, HasTheBytesOfTheFile) {
  const Folder folder;
  folder.write("empty", "");
  folder.write("some", std::string("a\0b", 3));
  EXPECT_TRUE(read_data_file(folder / "empty", 0).value().empty());
  const auto bytes = read_data_file(folder / "some", 3).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.size()), std::string("a\0b", 3));
  EXPECT_EQ(read_data_file(folder / "some", 2).error().code, Errc::malformed);
  EXPECT_EQ(read_data_file(folder / "none", 2).error().code, Errc::not_found);
  EXPECT_EQ(read_data_file(folder.path(), 2).error().code, Errc::malformed);
}

TEST(DataFile, IsReadInParts) {
  const Folder folder;
  folder.write("some", "abcdef");
  const auto file = DataFile::open(folder / "some").value();
  EXPECT_EQ(file.size(), 6u);
  const auto part = file.read(2, 3).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(part.bytes().data()), part.size()), "cde");
  EXPECT_TRUE(file.read(6, 0).value().empty());
  fs::resize_file(folder / "some", 4);
  EXPECT_TRUE(file.read(0, 4));
  const auto shortened = file.read(2, 3).error();
  EXPECT_EQ(shortened.code, Errc::malformed);
  EXPECT_THAT(shortened.context, HasSubstr("it has no byte 4, and had 6 bytes when it was opened"));
}

/// Files of sysfs claim a page and have less, as one does that is shortened between the question and the reading.
TEST(DataFile, ThatEndsEarlyIsRefused) {
  const std::string path = "/sys/devices/system/cpu/online";
  std::error_code none;
  if (fs::file_size(path, none) < 1024) GTEST_SKIP() << "no file here claims more than it has";
  const auto read = read_data_file(path, 1 << 20);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::malformed);
  EXPECT_THAT(read.error().context, HasSubstr("it was shortened while it was read"));
}

/// A batch of all examples, again after the file has lost its contents.
void expect_kept(const std::string& dataset, const nlohmann::json& params, const std::string& path) {
  const auto examples = datasets().make(dataset, params, path).value()->train().value();
  std::vector<std::uint32_t> all(examples->classes().size());
  std::iota(all.begin(), all.end(), 0u);
  const auto before = examples->batch(all);
  fs::resize_file(path, 0);
  const auto after = examples->batch(all);
  EXPECT_TRUE(after.input.equal(before.input)) << dataset;
  EXPECT_TRUE(after.target.equal(before.target)) << dataset;
}

TEST(DataFile, MayBeShortenedWhileAJobUsesIt) {
  const Folder folder;
  torch::manual_seed(1);
  TensorFile file;
  for (const std::string part : {"train_", "test_"}) {
    file.add(part, {{"inputs", torch::randn({64, 1, 28, 28})}, {"classes", torch::zeros({64}, at::kByte)}});
  }
  const auto bytes = file.write({}).value();
  folder.write("data.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  expect_kept("arrays", nullptr, folder / "data.safetensors");

  std::string text(100'000, 'a');
  for (std::size_t i = 0; i < text.size(); i += 3) text[i] = 'b';
  folder.write("a.txt", text);
  expect_kept("text", {{"context", 10}}, folder / "a.txt");
}

}  // namespace
}  // namespace weir::training
