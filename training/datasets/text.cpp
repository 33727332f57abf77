#include "training/datasets/text.hpp"

#include <cmath>
#include <utility>

#include "base/errc.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/text_file.hpp"
#include "training/datasets/texts.hpp"

namespace weir::training {
namespace {

class Files final : public Dataset {
 public:
  Files(const TextDataset::Options& options, std::string path) : options_(options), path_(std::move(path)) {}

  ExampleShape shape() const override { return TextDataset::shape(options_, path_).example; }
  Result<std::unique_ptr<Examples>> train() const override { return read(true); }
  Result<std::unique_ptr<Examples>> test() const override { return read(false); }

 private:
  Result<std::unique_ptr<Examples>> read(bool training) const;

  TextDataset::Options options_;
  std::string path_;
};

Result<std::unique_ptr<Examples>> Files::read(bool training) const {
  const auto refuse = [&](const Error& error) {
    return Error{error.code, "dataset text: " + error.context +
                                 "; dataset.path must be a text file, or a folder of files that end in .txt"};
  };
  const auto files = find_text(path_);
  if (!files) return refuse(files.error());
  const auto tested = static_cast<std::uint64_t>(std::floor(static_cast<double>(files->bytes) * options_.test_share));
  const std::uint64_t border = files->bytes - tested;
  const std::uint64_t begin = training ? 0 : border;
  const std::uint64_t end = training ? border : files->bytes;
  const auto tokens = static_cast<std::uint64_t>(options_.context);
  Texts::Stretch stretch{.begin = 0, .end = end - begin, .tokens = tokens, .stride = tokens};
  if (training && options_.stride > 0) stretch.stride = static_cast<std::uint64_t>(options_.stride);
  if (stretch.examples() == 0) {
    return refuse({Errc::malformed, path_ + " has " + std::to_string(files->bytes) + " bytes, of which " +
                                        std::to_string(stretch.end) + " are for " +
                                        (training ? "training" : "testing") + ", and one example takes " +
                                        std::to_string(tokens + 1)});
  }
  auto text = read_text(*files, begin, end);
  if (!text) return refuse(text.error());
  if (text->vocabulary() > static_cast<std::size_t>(options_.vocabulary)) {
    return Error{Errc::malformed, "dataset text: " + path_ + " has " + std::to_string(text->vocabulary()) +
                                      " different bytes, and the dataset's parameter vocabulary allows " +
                                      std::to_string(options_.vocabulary)};
  }
  return std::make_unique<Texts>(std::make_shared<const Text>(std::move(*text)), stretch);
}

}  // namespace

Result<std::unique_ptr<Dataset>> TextDataset::make(const Options& options, const std::string& path) {
  return std::make_unique<Files>(options, path);
}

}  // namespace weir::training
