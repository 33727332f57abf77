#include "training/datasets/cifar.hpp"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/cifar_file.hpp"
#include "training/datasets/data_file.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/images.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;

/// The files of one part, and how many images each has.
struct Part {
  std::vector<std::string> files;
  std::size_t images_each = 0;
};

/// What the two datasets differ in.
struct Variant {
  std::string dataset;
  std::string archive;
  std::string folder_in_archive;
  Part train;
  Part test;
  CifarFormat format;
  std::vector<Images::Scale> scales;  ///< means and deviations of the training images
  ExampleShape shape;
  Augmentation augmentation;
};

class Cifar final : public Dataset {
 public:
  Cifar(Variant variant, std::string path) : variant_(std::move(variant)), path_(std::move(path)) {}

  ExampleShape shape() const override { return variant_.shape; }
  Result<std::unique_ptr<Examples>> train() const override { return read(variant_.train, variant_.augmentation); }
  Result<std::unique_ptr<Examples>> test() const override { return read(variant_.test, {}); }

 private:
  Result<std::unique_ptr<Examples>> read(const Part& part, const Augmentation& augmentation) const;
  std::string folder() const;
  Error advise(const Error& error) const;

  Variant variant_;
  std::string path_;
};

/// The archive has a folder of its own.
std::string Cifar::folder() const {
  std::error_code ignored;
  const auto inner = fs::path(path_) / variant_.folder_in_archive;
  return fs::is_directory(inner, ignored) ? inner.string() : path_;
}

Error Cifar::advise(const Error& error) const {
  std::string files;
  for (const auto* part : {&variant_.train, &variant_.test}) {
    for (const auto& file : part->files) files += (files.empty() ? "" : ", ") + file;
  }
  return {error.code, "dataset " + variant_.dataset + ": " + error.context + "; dataset.path must be the folder with " +
                          files + ", as " + variant_.archive +
                          " from https://www.cs.toronto.edu/~kriz/cifar.html has "
                          "them"};
}

Result<std::unique_ptr<Examples>> Cifar::read(const Part& part, const Augmentation& augmentation) const {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint16_t> labels;
  const std::uint64_t file_bytes = part.images_each * variant_.format.record_bytes();
  for (const auto& name : part.files) {
    const auto path = folder() + "/" + name;
    const auto file = read_data_file(path, file_bytes);
    if (!file) return advise(file.error());
    auto read = read_cifar(file->bytes(), variant_.format, part.images_each, pixels, labels);
    if (!read) return advise(read.error().within(path));
  }
  return std::make_unique<Images>(shape(), variant_.scales, pixels_of(std::move(pixels)), std::move(labels),
                                  augmentation);
}

}  // namespace

Result<std::unique_ptr<Dataset>> Cifar10::make(const Options& options, const std::string& path) {
  Variant variant{
      .dataset = std::string(type_name),
      .archive = "cifar-10-binary.tar.gz",
      .folder_in_archive = "cifar-10-batches-bin",
      .train = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
                10'000},
      .test = {{"test_batch.bin"}, 10'000},
      .format = {.label_bytes = 1, .label_at = 0, .classes = 10},
      .scales = {{0.4914f, 0.2470f}, {0.4822f, 0.2435f}, {0.4465f, 0.2616f}},
      .shape = shape(options, path).example,
      .augmentation = options.augmentation};
  return std::make_unique<Cifar>(std::move(variant), path);
}

Result<std::unique_ptr<Dataset>> Cifar100::make(const Options& options, const std::string& path) {
  const auto example = shape(options, path).example;
  Variant variant{.dataset = std::string(type_name),
                  .archive = "cifar-100-binary.tar.gz",
                  .folder_in_archive = "cifar-100-binary",
                  .train = {{"train.bin"}, 50'000},
                  .test = {{"test.bin"}, 10'000},
                  .format = {.label_bytes = 2,
                             .label_at = options.labels == "fine" ? std::size_t{1} : std::size_t{0},
                             .classes = static_cast<std::uint16_t>(example.classes)},
                  .scales = {{0.5071f, 0.2673f}, {0.4865f, 0.2564f}, {0.4409f, 0.2762f}},
                  .shape = example,
                  .augmentation = options.augmentation};
  return std::make_unique<Cifar>(std::move(variant), path);
}

}  // namespace weir::training
