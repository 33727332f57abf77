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
Result<File> read_file(const std::string& folder, const std::string& name, std::size_t dimensions) {
  File file{folder + "/" + name + ".gz", {}};
  auto idx = read_idx_file(file.path, dimensions);
  if (!idx && idx.error().code == Errc::not_found) {
    const std::string plain = folder + "/" + name;
    auto second = read_idx_file(plain, dimensions);
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
  auto labels = read_file(about_.folder, part + "-labels-idx1-ubyte", 1);
  if (!labels) return advise(labels.error());
  auto images = read_file(about_.folder, part + "-images-idx3-ubyte", 3);
  if (!images) return advise(images.error());

  const auto expected = shape();
  const auto& extents = images->idx.extents;
  if (extents[1] != expected.height || extents[2] != expected.width) {
    return advise({Errc::malformed, images->path + ": its images are not " + std::to_string(expected.height) + " x " +
                                        std::to_string(expected.width)});
  }
  const auto& classes = labels->idx.elements;
  if (extents[0] != classes.size() || classes.empty()) {
    return advise({Errc::malformed, images->path + " has " + std::to_string(extents[0]) + " images, " + labels->path +
                                        " has " + std::to_string(classes.size()) + " labels"});
  }
  if (std::ranges::max(classes) >= expected.classes) {
    return advise({Errc::malformed, labels->path + ": a label is not below " + std::to_string(expected.classes)});
  }
  return std::make_unique<Images>(expected, std::vector{about_.scale}, pixels_of(std::move(images->idx.elements)),
                                  std::vector<std::uint16_t>(classes.begin(), classes.end()), augmentation);
}

}  // namespace

std::unique_ptr<Dataset> idx_images(IdxFolder folder) { return std::make_unique<Folder>(std::move(folder)); }

}  // namespace weir::training
