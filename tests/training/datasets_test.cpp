#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "folder.hpp"
#include "training/datasets/catalog.hpp"
#include "training/shapes.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;
using testing::Folder;

void write_gzip(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

void write_images(const std::string& path, std::uint8_t count, std::uint8_t height, std::uint8_t width) {
  std::vector<std::uint8_t> bytes{0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, height, 0, 0, 0, width};
  for (int i = 0; i < count * height * width; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
  write_gzip(path, bytes);
}

void write_labels(const std::string& path, const std::vector<std::uint8_t>& labels) {
  std::vector<std::uint8_t> bytes{0, 0, 8, 1, 0, 0, 0, static_cast<std::uint8_t>(labels.size())};
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  write_gzip(path, bytes);
}

Result<std::unique_ptr<Examples>> read_train(const std::string& folder) {
  return datasets().make("fashion-mnist", nullptr, folder).value()->train();
}

TEST(Datasets, DescribeEveryParameter) {
  for (const auto& dataset : datasets().entries()) {
    const nlohmann::json schema = dataset.schema();
    for (const auto& [name, property] : schema.at("properties").items()) {
      EXPECT_NE(property.value("description", ""), "") << dataset.name << ": " << name;
    }
  }
}

TEST(FashionMnist, ReadsItsFiles) {
  const Folder folder;
  write_images(folder / "train-images-idx3-ubyte.gz", 3, 28, 28);
  write_labels(folder / "train-labels-idx1-ubyte.gz", {7, 0, 9});
  const auto examples = read_train(folder.path()).value();
  EXPECT_EQ(std::vector<std::uint16_t>(examples->classes().begin(), examples->classes().end()),
            (std::vector<std::uint16_t>{7, 0, 9}));

  const std::vector<std::uint32_t> positions{2, 0};
  const auto batch = examples->batch(positions);
  EXPECT_EQ(batch.input.sizes(), (std::vector<std::int64_t>{2, 1, 28, 28}));
  EXPECT_EQ(batch.target.data_ptr<std::int64_t>()[0], 9);
  EXPECT_EQ(batch.target.data_ptr<std::int64_t>()[1], 7);
  EXPECT_FLOAT_EQ(batch.input.data_ptr<float>()[28 * 28 + 5], (5 / 255.0f - 0.2860f) / 0.3530f);
}

TEST(FashionMnist, AMissingFileSaysHowToGetIt) {
  const auto examples = read_train("/nonexistent/folder");
  ASSERT_FALSE(examples);
  EXPECT_EQ(examples.error().code, Errc::not_found);
  for (const char* part :
       {"/nonexistent/folder/train-images-idx3-ubyte.gz", "apt-get install dataset-fashion-mnist", "dataset.path"}) {
    EXPECT_NE(examples.error().context.find(part), std::string::npos) << examples.error().context;
  }
}

void expect_refused(const Folder& folder, const std::string& why) {
  const auto examples = read_train(folder.path());
  ASSERT_FALSE(examples) << why;
  EXPECT_EQ(examples.error().code, Errc::malformed) << why;
  EXPECT_NE(examples.error().context.find(why), std::string::npos) << examples.error().context;
  EXPECT_NE(examples.error().context.find("apt-get install"), std::string::npos) << examples.error().context;
}

TEST(FashionMnist, BrokenFilesAreNamed) {
  const Folder folder;
  const auto images = folder / "train-images-idx3-ubyte.gz";
  const auto labels = folder / "train-labels-idx1-ubyte.gz";

  write_images(images, 2, 28, 28);
  write_labels(labels, {1, 2});
  fs::resize_file(images, fs::file_size(images) - 20);
  expect_refused(folder, images);

  write_images(images, 2, 28, 27);
  expect_refused(folder, "not 28 x 28");
  write_images(images, 3, 28, 28);
  expect_refused(folder, "3 images");
  write_images(images, 2, 28, 28);
  write_labels(labels, {1, 10});
  expect_refused(folder, "not below 10");
  write_labels(labels, {});
  expect_refused(folder, "0 labels");
  write_images(images, 0, 28, 28);
  expect_refused(folder, "0 images");
  write_images(images, 2, 28, 28);

  std::ofstream(labels, std::ios::binary) << "<html>404</html>";
  expect_refused(folder, "first bytes");
  std::ofstream(labels, std::ios::binary) << "\x1f\x8b\x08 and then nothing that zlib knows";
  expect_refused(folder, labels);
}

/// A megabyte of zeros, of which little is left when they are compressed, behind a header.
void write_zeros(const std::string& path, std::vector<std::uint8_t> header) {
  header.resize(1 << 20);
  write_gzip(path, header);
}

TEST(FashionMnist, DecompressesNoMoreThanIsAnnounced) {
  const Folder folder;
  const auto images = folder / "train-images-idx3-ubyte.gz";
  const auto labels = folder / "train-labels-idx1-ubyte.gz";
  write_images(images, 2, 28, 28);
  write_zeros(labels, {0, 0, 8, 1, 255, 255, 255, 255});
  expect_refused(folder, labels + ": it has 4294967295 labels, " + images + " has 2 images");
  write_zeros(labels, {0, 0, 8, 1, 0, 0, 0, 2});
  expect_refused(folder, labels + ": it goes on after the 10 bytes it claims");

  write_labels(labels, {1, 2});
  write_zeros(images, {0, 0, 8, 3, 0, 76, 75, 64, 0, 0, 0, 28, 0, 0, 0, 28});
  expect_refused(folder, labels + ": it has 2 labels, " + images + " has 5000000 images");
  write_zeros(images, {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 28, 0, 0, 0, 28});
  expect_refused(folder, images + ": its header claims more than 4 GiB");
}

TEST(Mnist, ReadsFilesThatAreNotCompressed) {
  const Folder folder;
  write_images(folder / "train-images-idx3-ubyte.gz", 2, 28, 28);
  const auto read = [&] { return datasets().make("mnist", nullptr, folder.path()).value()->train(); };
  EXPECT_EQ(read().error().code, Errc::not_found);
  EXPECT_NE(read().error().context.find("train-labels-idx1-ubyte.gz: No such file"), std::string::npos);
  EXPECT_NE(read().error().context.find("http://yann.lecun.com/exdb/mnist"), std::string::npos);
  folder.write("train-labels-idx1-ubyte", {"\0\0\x08\1\0\0\0\2\7\1", 10});
  const auto examples = read().value();
  EXPECT_EQ(examples->classes()[0], 7u);
  const auto batch = examples->batch(std::vector<std::uint32_t>{0});
  EXPECT_FLOAT_EQ(batch.input.data_ptr<float>()[5], (5 / 255.0f - 0.1307f) / 0.3081f);
  folder.write("train-labels-idx1-ubyte", {"\0\0\x08\1\0\0\0\2\7", 9});
  EXPECT_EQ(read().error().code, Errc::malformed);
  EXPECT_NE(read().error().context.find("ends after 9 of 10 bytes: the file is truncated"), std::string::npos);
}

TEST(Synthetic, HasAnyShape) {
  const nlohmann::json params{{"channels", 3},  {"height", 4},           {"width", 5},
                              {"classes", 300}, {"train_examples", 600}, {"test_examples", 1}};
  const auto examples = datasets().make("synthetic", params, "").value()->train().value();
  EXPECT_EQ(examples->batch(std::vector<std::uint32_t>{0, 1}).input.sizes(), (std::vector<std::int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(examples->classes()[299], 299u);
  const auto large = datasets().make("synthetic", {{"height", 512}, {"width", 512}, {"train_examples", 20'000}}, "");
  EXPECT_EQ(large.error().code, Errc::invalid_argument);
  EXPECT_NE(large.error().context.find("too many bytes of images"), std::string::npos);
}

TEST(Synthetic, IsTheSameEachTimeAndSplitsDiffer) {
  const auto dataset = datasets().make("synthetic", {{"train_examples", 20}, {"test_examples", 20}}, "").value();
  const std::vector<std::uint32_t> positions{0, 7, 19};
  const auto first = dataset->train().value()->batch(positions);
  const auto again = dataset->train().value()->batch(positions);
  const auto test = dataset->test().value()->batch(positions);
  EXPECT_TRUE(first.input.equal(again.input));
  EXPECT_TRUE(first.target.equal(again.target));
  EXPECT_FALSE(first.input.equal(test.input));
  EXPECT_EQ(datasets().make("synthetic", nullptr, "/somewhere").error().code, Errc::invalid_argument);
}

TEST(Datasets, StateTheirShapesWithoutLibTorch) {
  EXPECT_EQ(dataset_shape("fashion-mnist", nlohmann::json::object(), "")->train_examples, 60'000u);
  EXPECT_EQ(dataset_shape("fashion-mnist", nlohmann::json::object(), "/data")->train_examples, std::nullopt);
  EXPECT_EQ(dataset_shape("fashion-mnits", nlohmann::json::object(), "").error().code, Errc::not_found);
  const nlohmann::json some = {{"height", 9}, {"width", 31}, {"classes", 3}, {"train_examples", 20}};
  for (const auto& entry : datasets().entries()) {
    for (const auto& params : {nlohmann::json(nullptr), some}) {
      if (entry.name != "synthetic" && !params.is_null()) continue;  // its parameters are others
      const std::string path = entry.needs_path ? "/data" : "";
      const auto dataset = datasets().make(entry.name, params, path).value();
      const auto stated = dataset_shape(entry.name, params, path).value();
      EXPECT_EQ(stated.example, dataset->shape()) << entry.name;
      if (!entry.name.starts_with("synthetic")) continue;  // the files of the others need not be here
      EXPECT_EQ(stated.train_examples, dataset->train().value()->classes().size()) << entry.name;
    }
  }
}

TEST(Datasets, UnknownNamesAndParametersAreExplained) {
  const auto unknown = datasets().make("fashion-mnits", nullptr, "").error();
  EXPECT_EQ(unknown.code, Errc::not_found);
  EXPECT_NE(unknown.context.find("fashion-mnist"), std::string::npos) << unknown.context;
  EXPECT_EQ(datasets().make("synthetic", {{"classes", 1}}, "").error().code, Errc::invalid_argument);
  EXPECT_EQ(datasets().make("synthetic", {{"clases", 3}}, "").error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace weir::training
