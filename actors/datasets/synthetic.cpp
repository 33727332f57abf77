#include "actors/datasets/synthetic.hpp"

#include <nlohmann/json.hpp>

#include "actors/datasets/dataset.hpp"
#include "actors/datasets/images.hpp"
#include "actors/datasets/random.hpp"
#include "base/errc.hpp"

namespace weir::actors {
namespace {

nlohmann::json whole(std::int64_t minimum, std::int64_t maximum, std::int64_t value, const char* description) {
  return {{"type", "integer"},
          {"minimum", minimum},
          {"maximum", maximum},
          {"default", value},
          {"description", description}};
}

class Patterns final : public Dataset {
 public:
  struct Options {
    ExampleShape shape;
    std::uint32_t train_examples = 0;
    std::uint32_t test_examples = 0;
    double noise = 0;  ///< share of each pixel that is noise
    std::uint64_t seed = 0;
  };
  explicit Patterns(Options options) : options_(options) {}

  ExampleShape shape() const override { return options_.shape; }
  Result<std::unique_ptr<Examples>> train() const override { return draw(options_.train_examples, 1); }
  Result<std::unique_ptr<Examples>> test() const override { return draw(options_.test_examples, 2); }

 private:
  Result<std::unique_ptr<Examples>> draw(std::uint32_t count, std::uint64_t part) const;

  Options options_;
};

Result<std::unique_ptr<Examples>> Patterns::draw(std::uint32_t count, std::uint64_t part) const {
  const auto& shape = options_.shape;
  const auto pixels = static_cast<std::size_t>(shape.channels * shape.height * shape.width);
  const auto classes = static_cast<std::size_t>(shape.classes);

  Random patterns_random(options_.seed, 0);
  std::vector<std::uint8_t> patterns(classes * pixels);
  for (auto& pixel : patterns) pixel = static_cast<std::uint8_t>(patterns_random.below(256));

  Random random(options_.seed, part);
  const auto noise = static_cast<std::uint64_t>(options_.noise * 256);
  std::vector<std::uint8_t> images(count * pixels);
  std::vector<std::uint8_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) {
    labels[i] = static_cast<std::uint8_t>(i % classes);
    for (std::size_t p = 0; p < pixels; ++p) {
      const std::uint64_t signal = patterns[labels[i] * pixels + p];
      images[i * pixels + p] = static_cast<std::uint8_t>((signal * (256 - noise) + random.below(256) * noise) / 256);
    }
  }
  return std::make_unique<Images>(shape, Images::Scale{0.5f, 0.25f}, std::move(images), std::move(labels));
}

}  // namespace

nlohmann::json Synthetic::schema() {
  return {{"type", "object"},
          {"properties",
           {{"height", whole(1, 512, 28, "pixels")},
            {"width", whole(1, 512, 28, "pixels")},
            {"classes", whole(2, 256, 10, "patterns to tell apart")},
            {"train_examples", whole(1, 1'000'000, 4096, "examples to learn from")},
            {"test_examples", whole(1, 1'000'000, 1024, "examples to be tested on")},
            {"noise",
             {{"type", "number"},
              {"minimum", 0},
              {"maximum", 1},
              {"default", 0.5},
              {"description", "share of each pixel that is noise"}}},
            {"seed", whole(0, INT64_MAX, 1, "other seeds give other patterns")}}},
          {"additionalProperties", false}};
}

Result<std::unique_ptr<Dataset>> Synthetic::make(const nlohmann::json& params, const std::string& path) {
  if (!path.empty()) return Error{Errc::invalid_argument, "dataset synthetic has no files: leave dataset.path out"};
  const auto stated = shape(params, path);
  Patterns::Options options;
  options.shape = stated.example;
  options.train_examples = static_cast<std::uint32_t>(*stated.train_examples);
  options.test_examples = params.at("test_examples");
  options.noise = params.at("noise");
  options.seed = params.at("seed");
  return std::make_unique<Patterns>(options);
}

}  // namespace weir::actors
