#include "protocol/checkpoint_part.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "tests/protocol/part_of.hpp"

namespace weir::protocol {
namespace {

using testing::part_of;

/// Two workers and a server. The tensors are of different length and contents, and one is empty.
Segment whole_checkpoint() {
  static const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  const auto floats = [](std::string name, std::size_t first, std::size_t count) {
    const auto bytes = std::as_bytes(std::span(values).subspan(first, count));
    return StoredTensor{std::move(name), Dtype::f32, {count}, bytes};
  };
  std::vector<StoredTensor> tensors{
      floats("model.bias", 0, 1),       floats("model.weight", 1, 3),       floats("rank.0.memory.a", 2, 2),
      floats("rank.1.memory.a", 3, 4),  floats("rank.1.memory.b", 0, 0),    floats("rank.1.model.weight", 4, 3),
      floats("rank.10.memory.a", 5, 1), floats("rank.2.optimizer.m", 6, 2), floats("rank.2.unlike.model.w", 7, 1)};
  tensors.push_back({"rank.1.rng", Dtype::u8, {5}, std::as_bytes(std::span(values)).first(5)});
  return Segment::own(write_safetensors(to_metadata({9, 11, std::nullopt, 1}), tensors).value());
}

std::vector<std::string> names_in(const Segment& file) {
  std::vector<std::string> names;
  for (const auto& tensor : read_safetensors(file).value().tensors) names.push_back(tensor.name);
  return names;
}

TEST(CheckpointPart, HasTheTensorsOfTheJobAndOfItsRank) {
  using ::testing::UnorderedElementsAre;
  const auto whole = whole_checkpoint();
  EXPECT_THAT(names_in(part_of(whole, 0)), UnorderedElementsAre("model.bias", "model.weight", "rank.0.memory.a"));
  EXPECT_THAT(names_in(part_of(whole, 1)),
              UnorderedElementsAre("model.bias", "model.weight", "rank.1.memory.a", "rank.1.memory.b",
                                   "rank.1.model.weight", "rank.1.rng"));
  EXPECT_THAT(names_in(part_of(whole, 3)), UnorderedElementsAre("model.bias", "model.weight"));
  // A server keeps copies of the workers' models.
  EXPECT_THAT(names_in(part_of(whole, 2, Role::server)),
              UnorderedElementsAre("model.bias", "model.weight", "rank.1.model.weight", "rank.2.optimizer.m",
                                   "rank.2.unlike.model.w"));
}

TEST(CheckpointPart, IsACheckpointWithTheSameValues) {
  const auto whole = read_safetensors(whole_checkpoint()).value();
  for (std::uint32_t rank = 0; rank < 12; ++rank) {
    const auto part = read_safetensors(part_of(whole.file, rank)).value();
    EXPECT_EQ(part.metadata, whole.metadata);
    for (const auto& tensor : part.tensors) {
      const auto* original = whole.find(tensor.name);
      ASSERT_NE(original, nullptr) << tensor.name;
      EXPECT_EQ(tensor.shape, original->shape) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, original->bytes)) << tensor.name;
    }
  }
}

TEST(CheckpointPart, IsReadInPiecesOfAnySize) {
  const auto whole = whole_checkpoint();
  const auto expected = part_of(whole, 1);
  const auto header = read_safetensors_header(whole.bytes(), whole.size()).value();
  const auto part = CheckpointPart::make(header, 1, Role::worker).value();
  EXPECT_EQ(part.size(), expected.size());
  const auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    std::ranges::copy(whole.bytes().subspan(offset, into.size()), into.begin());
    return Result<void>();
  };
  for (const std::uint64_t limit : {1, 2, 3, 7, 64, 1000, 100'000}) {
    Bytes together;
    while (true) {
      const auto piece = part.read(together.size(), limit, read).value();
      EXPECT_LE(piece.size(), limit);
      if (piece.empty()) break;
      append(together, piece);
    }
    EXPECT_TRUE(std::ranges::equal(together, expected.bytes())) << limit;
  }
}

TEST(CheckpointPart, FailsWithTheFile) {
  const auto whole = whole_checkpoint();
  const auto header = read_safetensors_header(whole.bytes(), whole.size()).value();
  const auto part = CheckpointPart::make(header, 1, Role::worker).value();
  const auto broken = [](std::uint64_t, std::span<std::byte>) {
    return Result<void>(Error{Errc::io, "the disk broke"});
  };
  EXPECT_EQ(part.read(part.size() - 1, 1, broken).error().code, Errc::io);
}

}  // namespace
}  // namespace weir::protocol
