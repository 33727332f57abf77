#include "training/datasets/cifar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "folder.hpp"
#include "training/datasets/catalog.hpp"
#include "training/datasets/cifar_file.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using ::testing::HasSubstr;

/// A file of that many bytes, all zero but those given at the beginning of one record. It takes no room on the disk.
void write_records(const std::string& path, std::uint64_t bytes, std::uint64_t at, const std::vector<char>& record) {
  std::ofstream(path, std::ios::binary).close();
  fs::resize_file(path, bytes);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(record.data(), static_cast<std::streamsize>(record.size()));
}

constexpr std::uint64_t batch_bytes = 10'000 * 3'073;

void write_cifar10(const Folder& folder) {
  for (char i = 1; i <= 5; ++i) {
    const auto path = folder / ("data_batch_" + std::to_string(i) + ".bin");
    write_records(path, batch_bytes, 3'073 * 2, {i, 100, 101});
  }
  write_records(folder / "test_batch.bin", batch_bytes, 0, {9, 7});
}

Error refusal_of(const Result<std::unique_ptr<Examples>>& examples) {
  EXPECT_FALSE(examples);
  return examples ? Error() : examples.error();
}

Error refusal(const char* name, const std::string& path, const nlohmann::json& params = nullptr) {
  return refusal_of(datasets().make(name, params, path).value()->train());
}

TEST(Cifar10, ReadsItsBatchesInTheirOrder) {
  const Folder folder;
  write_cifar10(folder);
  const auto dataset = datasets().make("cifar10", nullptr, folder.path()).value();
  const auto train = dataset->train().value();
  ASSERT_EQ(train->classes().size(), 50'000u);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(train->classes()[i * 10'000 + 2], i + 1);
  const std::vector<std::uint32_t> positions{10'002};
  const auto batch = train->batch(positions);
  EXPECT_EQ(batch.input.sizes(), (std::vector<std::int64_t>{1, 3, 32, 32}));
  EXPECT_EQ(batch.target.data_ptr<std::int64_t>()[0], 2);
  const float* pixels = batch.input.data_ptr<float>();
  EXPECT_NEAR(pixels[0], (100 / 255.0f - 0.4914f) / 0.2470f, 1e-5);
  EXPECT_NEAR(pixels[1], (101 / 255.0f - 0.4914f) / 0.2470f, 1e-5);
  EXPECT_NEAR(pixels[1024], -0.4822f / 0.2435f, 1e-5);
  const auto test = dataset->test().value();
  EXPECT_EQ(test->classes().size(), 10'000u);
  EXPECT_EQ(test->classes()[0], 9u);
}

TEST(Cifar10, SaysWhichBatchIsWrongAndWhereToGetIt) {
  const Folder folder;
  EXPECT_EQ(refusal("cifar10", folder.path()).code, Errc::not_found);
  write_cifar10(folder);
  const auto third = folder / "data_batch_3.bin";
  fs::remove(third);
  auto error = refusal("cifar10", folder.path());
  EXPECT_EQ(error.code, Errc::not_found);
  for (const std::string& part : {third + ": No such file", std::string("cifar-10-binary.tar.gz"),
                                  std::string("https://www.cs.toronto.edu/~kriz/cifar.html")}) {
    EXPECT_THAT(error.context, HasSubstr(part));
  }
  write_records(third, batch_bytes - 1, 0, {});
  error = refusal("cifar10", folder.path());
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr(third + ": it has 30729999 bytes instead of the 30730000 of 10000 images of "
                                               "3073 bytes: it is truncated"));
  write_records(third, batch_bytes + 1, 0, {});
  EXPECT_THAT(refusal("cifar10", folder.path()).context,
              HasSubstr(third + " has 30730001 bytes; at most 30730000 are read; dataset.path must be the folder"));
  write_records(third, batch_bytes, 3'073 * 9'999, {10});
  EXPECT_THAT(refusal("cifar10", folder.path()).context,
              HasSubstr("image 9999 has the label 10, and the last class is 9"));
  fs::remove(third);
  fs::create_directory(third);
  EXPECT_THAT(refusal("cifar10", folder.path()).context, HasSubstr("is not a file"));
}

TEST(Cifar10, NeedsAPath) {
  const auto made = datasets().make("cifar10", nullptr, "");
  EXPECT_EQ(made.error().code, Errc::invalid_argument);
  EXPECT_THAT(made.error().context, HasSubstr("dataset cifar10 has no usual place: say as dataset.path where it is"));
}

TEST(Cifar100, HasFineAndCoarseLabels) {
  const Folder folder;
  fs::create_directory(folder / "cifar-100-binary");
  write_records(folder / "cifar-100-binary/train.bin", 50'000 * 3'074, 3'074, {19, 99, 50});
  write_records(folder / "cifar-100-binary/test.bin", 10'000 * 3'074, 0, {});
  const auto classes = [&](const char* labels) {
    const auto dataset = datasets().make("cifar100", {{"labels", labels}}, folder.path()).value();
    return std::pair(dataset->shape().classes, dataset->train().value()->classes()[1]);
  };
  EXPECT_EQ(classes("fine"), std::pair(std::int64_t{100}, std::uint16_t{99}));
  EXPECT_EQ(classes("coarse"), std::pair(std::int64_t{20}, std::uint16_t{19}));
  EXPECT_EQ(datasets().make("cifar100", nullptr, folder.path()).value()->test().value()->classes().size(), 10'000u);
  EXPECT_THAT(refusal("cifar100", folder.path() + "/none").context, HasSubstr("cifar-100-binary.tar.gz"));
}

TEST(Cifar100, SaysWhatIsWrongWithItsTest) {
  const Folder folder;
  const auto path = folder / "test.bin";
  const auto tested = [&](const char* labels) {
    return refusal_of(datasets().make("cifar100", {{"labels", labels}}, folder.path()).value()->test());
  };
  auto error = tested("fine");
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_THAT(error.context, HasSubstr(path + ": No such file"));
  EXPECT_THAT(error.context, HasSubstr("the folder with train.bin, test.bin, as cifar-100-binary.tar.gz"));
  write_records(path, 10'000 * 3'074 - 1, 0, {});
  error = tested("fine");
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr(path + ": it has 30739999 bytes instead of the 30740000"));
  write_records(path, 10'000 * 3'074 + 1, 0, {});
  EXPECT_THAT(tested("fine").context, HasSubstr(path + " has 30740001 bytes; at most 30740000 are read"));
  write_records(path, 10'000 * 3'074, 3'074 * 7, {20, 100});
  error = tested("fine");
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr(path + ": image 7 has the label 100, and the last class is 99"));
  EXPECT_THAT(tested("coarse").context, HasSubstr(path + ": image 7 has the label 20, and the last class is 19"));
}

TEST(CifarFile, AppendsOnlyWholeFiles) {
  Bytes file(2 * 3'073);
  file[3'073] = std::byte{3};
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint16_t> labels;
  ASSERT_TRUE(read_cifar(file, {}, 2, pixels, labels));
  EXPECT_EQ(labels, (std::vector<std::uint16_t>{0, 3}));
  EXPECT_EQ(pixels.size(), 2 * CifarFormat::pixel_bytes);
  file[3'073] = std::byte{10};
  EXPECT_FALSE(read_cifar(file, {}, 2, pixels, labels));
  EXPECT_FALSE(read_cifar(file, {}, 3, pixels, labels));
  EXPECT_EQ(labels.size(), 2u);
  EXPECT_EQ(pixels.size(), 2 * CifarFormat::pixel_bytes);
}

}  // namespace
}  // namespace weir::training
