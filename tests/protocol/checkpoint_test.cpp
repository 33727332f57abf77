#include "protocol/checkpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/errc.hpp"

namespace weir::protocol {
namespace {

Segment share(std::uint32_t rank, std::uint32_t world, std::uint64_t step, const std::vector<std::string>& names,
              std::uint32_t servers = 0) {
  static const std::vector<float> values{1, 2};
  std::vector<StoredTensor> tensors;
  for (const auto& name : names) tensors.push_back({name, Dtype::f32, {2}, std::as_bytes(std::span(values))});
  return Segment::own(write_safetensors(to_metadata({step, world, rank, servers}), tensors).value());
}

TEST(Checkpoint, SharesJoinIntoOneFileInAnyOrder) {
  const auto zero = share(0, 2, 9, {"model.weight", "rank.0.memory"});
  const auto one = share(1, 2, 9, {"rank.1.memory"});
  const auto joined = join_checkpoint(std::vector{zero, one}).value().whole();
  EXPECT_EQ(joined, join_checkpoint(std::vector{one, zero}).value().whole());

  const auto file = read_safetensors(Segment::own(joined)).value();
  const auto header = read_checkpoint_header(file).value();
  EXPECT_EQ(header.step, 9u);
  EXPECT_EQ(header.world, 2u);
  EXPECT_FALSE(header.rank);
  for (const char* name : {"model.weight", "rank.0.memory", "rank.1.memory"})
    EXPECT_NE(file.find(name), nullptr) << name;
}

TEST(Checkpoint, SharesInPiecesJoinIntoTheSameFile) {
  const std::vector shares{share(0, 2, 9, {"model.weight", "rank.0.memory"}), share(1, 2, 9, {"rank.1.memory"})};
  const auto expected = join_checkpoint(shares).value().whole();
  for (const std::size_t piece_bytes : {1, 7, 8, 100, 1000}) {
    std::vector<Pieces> in_pieces(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::size_t at = 0; at < shares[rank].size(); at += piece_bytes) {
        in_pieces[rank].add(shares[rank].slice(at, std::min(piece_bytes, shares[rank].size() - at)));
      }
    }
    EXPECT_EQ(join_checkpoint(in_pieces).value().whole(), expected) << piece_bytes;
  }
}

TEST(Checkpoint, RefusesSharesThatDoNotBelongTogether) {
  const auto zero = share(0, 2, 9, {"model.weight"});
  const std::vector<std::pair<const char*, std::vector<Segment>>> sets{
      {"none", {}},
      {"one missing", {zero}},
      {"one twice", {zero, zero}},
      {"other step", {zero, share(1, 2, 8, {"rank.1.memory"})}},
      {"other world", {zero, share(1, 3, 9, {"rank.1.memory"})}},
      {"another rank's name", {zero, share(1, 2, 9, {"rank.0.memory"})}},
      {"the job's name from two ranks", {zero, share(1, 2, 9, {"model.weight"})}},
      {"rank 10 is not rank 1", {zero, share(1, 2, 9, {"rank.10.memory"})}},
      {"a whole checkpoint", {zero, Segment::own(write_safetensors(to_metadata({9, 2, {}}), {}).value())}},
      {"garbage", {zero, Segment::own(Bytes(20))}},
  };
  for (const auto& [what, shares] : sets) {
    const auto joined = join_checkpoint(shares);
    ASSERT_FALSE(joined) << what;
    EXPECT_EQ(joined.error().code, Errc::malformed) << what;
  }
}

TEST(Checkpoint, ServersHaveSharesToo) {
  const auto of = [](std::uint32_t rank, std::uint32_t world = 2, std::uint32_t servers = 2) {
    return share(rank, world, 9, {"model." + std::to_string(rank), rank_prefix(rank) + "own"}, servers);
  };
  const auto joined = join_checkpoint(std::vector{of(0), of(1), of(2), of(3)}).value().whole();
  const auto file = read_safetensors(Segment::own(joined)).value();
  const auto header = read_checkpoint_header(file).value();
  EXPECT_EQ(header.world, 2u);
  EXPECT_EQ(header.servers, 2u);
  EXPECT_NE(file.find("rank.3.own"), nullptr);
  for (const auto& shares :
       {std::vector{of(0), of(1), of(2)}, std::vector{of(0), of(1), of(2, 2, 1), of(3)},
        std::vector{of(0), of(1), of(2), of(2)}, std::vector{of(0), of(1), of(2, 3, 1), of(3, 3, 1)},
        std::vector{share(0, 2, 9, {}), of(1), of(2), of(3)}}) {
    EXPECT_EQ(join_checkpoint(shares).error().code, Errc::malformed);
  }
}

TEST(Checkpoint, IsOfSoManyWorkersAndServers) {
  const CheckpointHeader header{9, 4, std::nullopt, 1};
  EXPECT_TRUE(check_group(header, 4, 5));
  const auto refused = check_group(header, 4, 6);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_EQ(refused.error().context,
            "the checkpoint is of 4 workers and 1 other process, and the job has 4 workers and 2 other processes");
  EXPECT_EQ(check_group(header, 1, 1).error().context,
            "the checkpoint is of 4 workers and 1 other process, and the job has 1 worker");
  EXPECT_EQ(check_group({9, 4, 2, 1}, 4, 5).error().code, Errc::conflict) << "a share";
}

TEST(Checkpoint, HeaderIsCheckedBeforeItIsUsed) {
  const auto read = [](std::map<std::string, std::string> metadata) {
    return read_checkpoint_header(read_safetensors(Segment::own(write_safetensors(metadata, {}).value())).value());
  };
  auto good = to_metadata({1, 2, 1, 3});
  EXPECT_TRUE(read(good));
  auto most = good;
  most["weir.world"] = "4294967295";
  EXPECT_FALSE(read(most)) << "more members than there are numbers";
  for (const char* key : {"weir.step", "weir.world", "weir.rank", "weir.servers"}) {
    for (const char* value : {"", "-1", "x", "1x", "99999999999999999999999"}) {
      auto bad = good;
      bad[key] = value;
      EXPECT_FALSE(read(bad)) << key << "=" << value;
    }
  }
  auto beyond = good;
  beyond["weir.rank"] = "5";
  EXPECT_EQ(read(beyond).error().code, Errc::malformed);
  auto later = good;
  later["weir.checkpoint"] = "2";
  EXPECT_EQ(read(later).error().code, Errc::unsupported);
  EXPECT_EQ(read({}).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::protocol
