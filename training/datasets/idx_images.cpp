#include "training/datasets/idx_images.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/idx.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;

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

/// The file with that name and the ending of compressed ones, or that without it if only that is there.
std::string file_named(const std::string& folder, const std::string& name) {
  const std::string plain = folder + "/" + name;
  std::error_code ignored;
  return !fs::exists(plain + ".gz", ignored) && fs::exists(plain, ignored) ? plain : plain + ".gz";
}

Result<void> check_images(std::span<const std::uint32_t> extents, const ExampleShape& expected) {
  if (extents[1] != expected.height || extents[2] != expected.width) {
    return Error{Errc::malformed,
                 "its images are not " + std::to_string(expected.height) + " x " + std::to_string(expected.width)};
  }
  if (extents[0] == 0) return Error{Errc::malformed, "it has 0 images"};
  return {};
}

Error Folder::advise(const Error& error) const {
  const auto& advice = error.code == Errc::not_found ? about_.if_missing : about_.if_broken;
  return {error.code, "dataset " + about_.dataset + ": " + error.context + "; " + advice};
}

Result<std::unique_ptr<Examples>> Folder::read(const std::string& part, const Augmentation& augmentation) const {
  const auto images_path = file_named(about_.folder, part + "-images-idx3-ubyte");
  const auto labels_path = file_named(about_.folder, part + "-labels-idx1-ubyte");
  const auto expected = shape();
  // A small file may decompress to gigabytes: labels are read as many as the header of the images announces, and the
  // images once that many labels are there.
  const auto announced = read_idx_file_extents(images_path, 3);
  if (!announced) return advise(announced.error());
  if (auto fits = check_images(*announced, expected); !fits) return advise(fits.error().within(images_path));
  const auto labels = read_idx_file(labels_path, 1, [&](std::span<const std::uint32_t> extents) -> Result<void> {
    if (extents[0] == announced->front()) return {};
    return Error{Errc::malformed, "it has " + std::to_string(extents[0]) + " labels, " + images_path + " has " +
                                      std::to_string(announced->front()) + " images"};
  });
  if (!labels) return advise(labels.error());
  const auto& classes = labels->elements;
  if (std::ranges::max(classes) >= expected.classes) {
    return advise({Errc::malformed, labels_path + ": a label is not below " + std::to_string(expected.classes)});
  }
  auto images = read_idx_file(images_path, 3, [&](std::span<const std::uint32_t> extents) -> Result<void> {
    if (std::ranges::equal(extents, *announced)) return {};
    return Error{Errc::malformed, "it was changed while it was read"};
  });
  if (!images) return advise(images.error());
  return std::make_unique<Images>(expected, std::vector{about_.scale}, pixels_of(std::move(images->elements)),
                                  std::vector<std::uint16_t>(classes.begin(), classes.end()), augmentation);
}

}  // namespace

std::unique_ptr<Dataset> idx_images(IdxFolder folder) { return std::make_unique<Folder>(std::move(folder)); }

}  // namespace weir::training
