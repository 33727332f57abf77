#include "training/datasets/idx_images.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/idx.hpp"

namespace weir::training {
namespace {

/// One of the files, read.
struct File {
  std::string path;
  Idx idx;
};

class Folder final : public Dataset {
 public:
  explicit Folder(IdxFolder about) : about_(std::move(about)) {}

  ExampleShape shape() const override { return about_.shape; }
  Result<std::unique_ptr<Examples>> train() const override { return read("train", about_.augmentation); }
  Result<std::unique_ptr<Examples>> test() const override { return read("t10k", {}); }

 private:
  Result<std::unique_ptr<Examples>> read(const std::string& part, const Augmentation& augmentation) const;
  Error advise(const Error& error) const;

  IdxFolder about_;
};

/// Reads the file with that name, or else that without the ending of compressed ones.
Result<File> read_file(const std::string& folder, const std::string& name, std::size_t dimensions,
                       const ExtentsCheck& check) {
  File file{folder + "/" + name + ".gz", {}};
  auto idx = read_idx_file(file.path, dimensions, check);
  if (!idx && idx.error().code == Errc::not_found) {
    const std::string plain = folder + "/" + name;
    auto second = read_idx_file(plain, dimensions, check);
    if (second || second.error().code != Errc::not_found) {
      file.path = plain;
      idx = std::move(second);
    }
  }
  if (!idx) return idx.error();
  file.idx = std::move(*idx);
  return file;
}

Error Folder::advise(const Error& error) const {
  const auto& advice = error.code == Errc::not_found ? about_.if_missing : about_.if_broken;
  return {error.code, "dataset " + about_.dataset + ": " + error.context + "; " + advice};
}

Result<std::unique_ptr<Examples>> Folder::read(const std::string& part, const Augmentation& augmentation) const {
  const auto labels = read_file(about_.folder, part + "-labels-idx1-ubyte", 1, [](auto extents) -> Result<void> {
    if (extents[0] == 0) return Error{Errc::malformed, "it has 0 labels"};
    return {};
  });
  if (!labels) return advise(labels.error());
  const auto& classes = labels->idx.elements;
  const auto expected = shape();
  const auto fits = [&](std::span<const std::uint32_t> extents) -> Result<void> {
    if (extents[1] != expected.height || extents[2] != expected.width) {
      return Error{Errc::malformed,
                   "its images are not " + std::to_string(expected.height) + " x " + std::to_string(expected.width)};
    }
    if (extents[0] != classes.size()) {
      return Error{Errc::malformed, "it has " + std::to_string(extents[0]) + " images, " + labels->path + " has " +
                                        std::to_string(classes.size()) + " labels"};
    }
    return {};
  };
  auto images = read_file(about_.folder, part + "-images-idx3-ubyte", 3, fits);
  if (!images) return advise(images.error());
  if (std::ranges::max(classes) >= expected.classes) {
    return advise({Errc::malformed, labels->path + ": a label is not below " + std::to_string(expected.classes)});
  }
  return std::make_unique<Images>(expected, std::vector{about_.scale}, pixels_of(std::move(images->idx.elements)),
                                  std::vector<std::uint16_t>(classes.begin(), classes.end()), augmentation);
}

}  // namespace

std::unique_ptr<Dataset> idx_images(IdxFolder folder) { return std::make_unique<Folder>(std::move(folder)); }

}  // namespace weir::training
