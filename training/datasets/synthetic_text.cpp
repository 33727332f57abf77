#include "training/datasets/synthetic_text.hpp"

#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/random.hpp"
#include "training/datasets/text_file.hpp"
#include "training/datasets/texts.hpp"

namespace weir::training {
namespace {

class Chain final : public Dataset {
 public:
  explicit Chain(const SyntheticText::Options& options) : options_(options) {}

  ExampleShape shape() const override { return SyntheticText::shape(options_, "").example; }
  Result<std::unique_ptr<Examples>> train() const override { return write(options_.train_examples, 1); }
  Result<std::unique_ptr<Examples>> test() const override { return write(options_.test_examples, 2); }

 private:
  Result<std::unique_ptr<Examples>> write(std::int64_t examples, std::uint64_t part) const;

  SyntheticText::Options options_;
};

Result<std::unique_ptr<Examples>> Chain::write(std::int64_t examples, std::uint64_t part) const {
  const auto seed = static_cast<std::uint64_t>(options_.seed);
  const auto vocabulary = static_cast<std::uint64_t>(options_.vocabulary);
  const auto followers = static_cast<std::size_t>(options_.followers);
  const auto context = static_cast<std::uint64_t>(options_.context);
  Random chain_random(seed, 0);
  std::vector<std::uint8_t> next(vocabulary * followers);
  for (auto& token : next) token = static_cast<std::uint8_t>(chain_random.below(vocabulary));

  Random random(seed, part);
  const std::uint64_t size = static_cast<std::uint64_t>(examples) * context + 1;
  Bytes text;
  text.reserve(size);
  std::uint64_t token = random.below(vocabulary);
  for (std::uint64_t i = 0; i < size; ++i) {
    text.push_back(static_cast<std::byte>(token));
    if (random.uniform() < options_.noise) {
      token = random.below(vocabulary);
      continue;
    }
    std::size_t follower = 0;
    while (follower + 1 < followers && random.below(2) == 0) ++follower;
    token = next[token * followers + follower];
  }
  std::vector<Segment> pieces;
  pieces.push_back(Segment::own(std::move(text)));
  return std::make_unique<Texts>(std::make_shared<const Text>(Text::of_tokens(std::move(pieces), vocabulary)),
                                 Texts::Stretch{.begin = 0, .end = size, .tokens = context, .stride = context});
}

}  // namespace

Result<std::unique_ptr<Dataset>> SyntheticText::make(const Options& options, const std::string& path) {
  if (!path.empty())
    return Error{Errc::invalid_argument, "dataset synthetic-text has no files: leave dataset.path out"};
  return std::make_unique<Chain>(options);
}

}  // namespace weir::training
