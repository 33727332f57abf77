#include "training/datasets/arrays.hpp"

#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/array_file.hpp"
#include "training/datasets/data_file.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/images.hpp"

namespace weir::training {
namespace {

class ArraysOfFile final : public Dataset {
 public:
  ArraysOfFile(const ArraysDataset::Options& options, std::string path) : options_(options), path_(std::move(path)) {}

  ExampleShape shape() const override { return ArraysDataset::shape(options_, path_).example; }
  Result<std::unique_ptr<Examples>> train() const override { return read("train", options_.augmentation); }
  Result<std::unique_ptr<Examples>> test() const override { return read("test", {}); }

 private:
  Result<std::unique_ptr<Examples>> read(std::string_view part, const Augmentation& augmentation) const;

  ArraysDataset::Options options_;
  std::string path_;
};

Result<std::unique_ptr<Examples>> ArraysOfFile::read(std::string_view part, const Augmentation& augmentation) const {
  const auto refuse = [](const Error& error) {
    return Error{error.code, "dataset arrays: " + error.context +
                                 "; dataset.path must be a safetensors file with the tensors train_inputs, "
                                 "train_classes, test_inputs and test_classes"};
  };
  const auto opened = DataFile::open(path_);
  if (!opened) return refuse(opened.error());
  if (opened->size() > ArraysDataset::file_bytes_max) {
    return refuse({Errc::malformed, path_ + " has " + std::to_string(opened->size()) + " bytes; a file of arrays has " +
                                        "at most " + std::to_string(ArraysDataset::file_bytes_max)});
  }
  const ArrayFile file{opened->size(), [&](std::uint64_t offset, std::uint64_t count) -> Result<Segment> {
                         return opened->read(offset, count);
                       }};
  auto arrays = read_arrays(file, part, shape());
  if (!arrays) return refuse(arrays.error().within(path_));
  const Images::Scale scale{static_cast<float>(options_.mean), static_cast<float>(options_.deviation)};
  return std::make_unique<Images>(shape(), std::vector{scale},
                                  Images::Pixels{std::move(arrays->inputs), arrays->dtype == protocol::Dtype::f32},
                                  std::move(arrays->classes), augmentation);
}

}  // namespace

Result<std::unique_ptr<Dataset>> ArraysDataset::make(const Options& options, const std::string& path) {
  return std::make_unique<ArraysOfFile>(options, path);
}

}  // namespace weir::training
