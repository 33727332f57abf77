#include "training/datasets/synthetic.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/images.hpp"
#include "training/datasets/random.hpp"

namespace weir::training {
namespace {

class Patterns final : public Dataset {
 public:
  explicit Patterns(const Synthetic::Options& options) : options_(options) {}

  ExampleShape shape() const override { return Synthetic::shape(options_, "").example; }
  Result<std::unique_ptr<Examples>> train() const override { return draw(options_.train_examples, 1); }
  Result<std::unique_ptr<Examples>> test() const override { return draw(options_.test_examples, 2); }

 private:
  Result<std::unique_ptr<Examples>> draw(std::int64_t count, std::uint64_t part) const;

  Synthetic::Options options_;
};

Result<std::unique_ptr<Examples>> Patterns::draw(std::int64_t count, std::uint64_t part) const {
  const auto shape = this->shape();
  const auto examples = static_cast<std::size_t>(count);
  const auto seed = static_cast<std::uint64_t>(options_.seed);
  const auto pixels = static_cast<std::size_t>(shape.channels * shape.height * shape.width);
  const auto classes = static_cast<std::size_t>(shape.classes);

  Random patterns_random(seed, 0);
  std::vector<std::uint8_t> patterns(classes * pixels);
  for (auto& pixel : patterns) pixel = static_cast<std::uint8_t>(patterns_random.below(256));

  Random random(seed, part);
  const auto noise = static_cast<std::uint64_t>(options_.noise * 256);
  std::vector<std::uint8_t> images(examples * pixels);
  std::vector<std::uint16_t> labels(examples);
  for (std::size_t i = 0; i < examples; ++i) {
    labels[i] = static_cast<std::uint16_t>(i % classes);
    for (std::size_t p = 0; p < pixels; ++p) {
      const std::uint64_t signal = patterns[labels[i] * pixels + p];
      images[i * pixels + p] = static_cast<std::uint8_t>((signal * (256 - noise) + random.below(256) * noise) / 256);
    }
  }
  return std::make_unique<Images>(shape, std::vector{Images::Scale{0.5f, 0.25f}}, pixels_of(std::move(images)),
                                  std::move(labels));
}

}  // namespace

Result<std::unique_ptr<Dataset>> Synthetic::make(const Options& options, const std::string& path) {
  if (!path.empty()) return Error{Errc::invalid_argument, "dataset synthetic has no files: leave dataset.path out"};
  return std::make_unique<Patterns>(options);
}

}  // namespace weir::training
