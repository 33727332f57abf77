#include "training/datasets/loader.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>

#include "training/datasets/images.hpp"

namespace weir::training {
namespace {

/// Images whose pixels are all different within an image.
Images counted(std::uint8_t count, const Augmentation& augmentation) {
  constexpr ExampleShape shape{.channels = 2, .height = 8, .width = 8, .classes = 2};
  std::vector<std::uint8_t> pixels(std::size_t{count} * 128);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 7 + i / 128);
  return {shape, {{0, 1 / 255.0f}}, pixels_of(std::move(pixels)), std::vector<std::uint16_t>(count), augmentation};
}

const std::vector<std::uint32_t> positions{0, 3, 1, 3};

TEST(Augmentation, DependsOnSeedEpochAndPositionAlone) {
  const auto images = counted(40, {.crop_padding = 2, .flip = true});
  const auto first = images.augmented(positions, {.seed = 5, .epoch = 2}).input;
  EXPECT_TRUE(first.equal(images.augmented(positions, {.seed = 5, .epoch = 2}).input));
  EXPECT_TRUE(first[1].equal(first[3]));
  const std::vector<std::uint32_t> one{1};
  EXPECT_TRUE(first[2].equal(images.augmented(one, {.seed = 5, .epoch = 2}).input[0]));
  EXPECT_FALSE(first.equal(images.augmented(positions, {.seed = 5, .epoch = 3}).input));
  EXPECT_FALSE(first.equal(images.augmented(positions, {.seed = 6, .epoch = 2}).input));
}

TEST(Augmentation, CropsAndReflects) {
  constexpr std::int64_t margin = 2;
  const Augmentation augmentation{.crop_padding = margin, .flip = true};
  const auto images = counted(40, augmentation);
  std::set<std::tuple<std::int64_t, std::int64_t, bool>> seen;
  for (std::uint32_t position = 0; position < 40; ++position) {
    const std::vector<std::uint32_t> one{position};
    const Pass pass{.seed = 1, .epoch = 9};
    const auto draw = augmentation.draw(pass, position);
    seen.insert({draw.down, draw.right, draw.flip});
    auto padded = torch::constant_pad_nd(images.batch(one).input, {margin, margin, margin, margin});
    padded = padded.narrow(2, margin + draw.down, 8).narrow(3, margin + draw.right, 8);
    if (draw.flip) padded = padded.flip({3});
    EXPECT_TRUE(images.augmented(one, pass).input.equal(padded)) << position;
  }
  EXPECT_GT(seen.size(), 20u);  // of 50
  for (const bool flip : {false, true}) {
    EXPECT_TRUE(std::ranges::any_of(seen, [&](const auto& one) { return std::get<2>(one) == flip; }));
  }
}

TEST(Augmentation, DoesNothingUnlessAsked) {
  const auto images = counted(4, {});
  EXPECT_TRUE(images.augmented(positions, {.seed = 5, .epoch = 2}).input.equal(images.batch(positions).input));
}

TEST(Loader, GivesTheSameBatchesAsWithoutIt) {
  const auto images = counted(40, {.crop_padding = 1, .flip = true});
  Loader loader(images);
  EXPECT_FALSE(loader.asked());
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::vector<std::uint32_t> wanted{i, 39 - i};
    loader.ask(wanted, {.seed = 3, .epoch = i});
    EXPECT_TRUE(loader.asked());
    const auto batch = loader.take();
    EXPECT_TRUE(batch.input.equal(images.augmented(wanted, {.seed = 3, .epoch = i}).input));
  }
}

/// Examples that count the batches taken, or throw.
class Counted final : public Examples {
 public:
  std::span<const std::uint16_t> classes() const override { return {}; }
  std::uint64_t hash() const override { return 0; }
  Batch make(std::span<const std::uint32_t> wanted, const Pass* /*pass*/, const Batch& /*memory*/) const override {
    if (wanted.empty()) throw std::runtime_error("nothing to load");
    ++taken;
    return {};
  }
  mutable std::atomic<int> taken = 0;
};

TEST(Loader, IsAtMostOneBatchAheadAndEndsWithOneInHand) {
  const Counted examples;
  {
    Loader loader(examples);
    loader.ask(positions, {});
    loader.take();
    EXPECT_EQ(examples.taken, 1);
    loader.ask(positions, {});
  }
  EXPECT_LE(examples.taken, 2);
}

TEST(Loader, PassesOnWhatPreparingThrows) {
  const Counted examples;
  Loader loader(examples);
  loader.ask({}, {});
  EXPECT_THROW(loader.take(), std::runtime_error);
  loader.ask(positions, {});
  loader.take();
}

}  // namespace
}  // namespace weir::training
