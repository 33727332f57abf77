#include "protocol/share_assembly.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"

namespace weir::protocol {
namespace {

constexpr std::uint64_t piece_bytes = 4;

Segment segment(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Segment::own(Bytes(bytes.data(), bytes.data() + bytes.size()));
}

/// A piece of a share of `share_bytes` bytes.
CheckpointPiece piece(std::uint64_t offset, std::string_view text, std::uint64_t share_bytes = 10) {
  return {.job_id = "job",
          .rank = 1,
          .attempt = 1,
          .step = 5,
          .share_bytes = share_bytes,
          .offset = offset,
          .bytes = segment(text)};
}

std::string text_of(const ShareAssembly& share) {
  const Bytes bytes = share.bytes().copy(0, share.bytes().size());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ShareAssembly, IsWholeWithItsLastPiece) {
  ShareAssembly share(piece_bytes);
  EXPECT_FALSE(share.is_whole());
  EXPECT_TRUE(share.add(piece(0, "abcd")));
  EXPECT_TRUE(share.add(piece(4, "efgh")));
  EXPECT_FALSE(share.is_whole());
  EXPECT_TRUE(share.add(piece(8, "ij")));
  EXPECT_TRUE(share.is_whole());
  EXPECT_EQ(text_of(share), "abcdefghij");
}

TEST(ShareAssembly, MayEndWithAFullPiece) {
  ShareAssembly share(piece_bytes);
  EXPECT_TRUE(share.add(piece(0, "abcd", 8)));
  EXPECT_TRUE(share.add(piece(4, "efgh", 8)));
  EXPECT_TRUE(share.is_whole());
}

TEST(ShareAssembly, TakesARepeatedPieceOnce) {
  ShareAssembly share(piece_bytes);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(share.add(piece(0, "abcd")));
  EXPECT_TRUE(share.add(piece(4, "efgh")));
  EXPECT_TRUE(share.add(piece(0, "abcd"))) << "it was under way on a link that broke";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(share.add(piece(8, "ij")));
  EXPECT_TRUE(share.is_whole());
  EXPECT_EQ(text_of(share), "abcdefghij");
}

TEST(ShareAssembly, RefusesWhatIsNotTheNextPieceAndStaysAsItWas) {
  ShareAssembly share(piece_bytes);
  EXPECT_EQ(share.add(piece(4, "efgh")).error().code, Errc::malformed) << "a gap at the beginning";
  ASSERT_TRUE(share.add(piece(0, "abcd")));
  const std::vector<std::pair<const char*, CheckpointPiece>> wrong{
      {"a gap", piece(8, "ij")},
      {"it overlaps the one before", piece(2, "cdef")},
      {"a gap and no border", piece(5, "fghi")},
      {"too short", piece(4, "efg")},
      {"too long", piece(4, "efghi")},
      {"empty", piece(4, "")},
      {"a repeat that is longer", piece(0, "abcdefgh")},
      {"beyond the end", piece(12, "m")},
      {"behind the end", piece(10, "")},
      {"far beyond", piece(~std::uint64_t{0} - 3, "abcd")},
      {"a share of another length", piece(4, "efgh", 12)},
      {"of a shorter one", piece(0, "abcd", 4)},
  };
  for (const auto& [what, one] : wrong) {
    const auto added = share.add(one);
    ASSERT_FALSE(added) << what;
    EXPECT_EQ(added.error().code, Errc::malformed) << what;
  }
  ASSERT_TRUE(share.add(piece(4, "efgh")));
  EXPECT_EQ(share.add(piece(8, "ijkl")).error().code, Errc::malformed) << "longer than announced";
  ASSERT_TRUE(share.add(piece(8, "ij")));
  EXPECT_EQ(text_of(share), "abcdefghij");
}

TEST(ShareAssembly, RefusesAShareThatIsEmptyOrLongerThanTheHeadTakes) {
  ShareAssembly share(piece_bytes);
  for (const std::uint64_t bytes : {std::uint64_t{0}, share_bytes_max + 1, ~std::uint64_t{0}}) {
    EXPECT_EQ(share.add(piece(0, "abcd", bytes)).error().code, Errc::invalid_argument) << bytes;
  }
  EXPECT_EQ(share.add(piece(0, "abcd", 0)).error().context, "rank 1's share of the checkpoint of step 5: it is empty");
  EXPECT_TRUE(share.add(piece(0, "abcd", share_bytes_max))) << "which takes no memory yet";
  EXPECT_EQ(share.bytes().size(), 4u);
}

/// The share of the only worker, with one tensor of 5 GiB of zeros. All its pieces but the first are the same memory.
TEST(ShareAssembly, AShareMayBeLongerThanAMessage) {
  constexpr std::uint64_t large = std::uint64_t{5} << 30;
  const std::vector<TensorEntry> tensors{{"model.w", Dtype::u8, {large}, 0, large}};
  const Bytes header = write_safetensors_header(to_metadata({3, 1, 0, 0}), tensors).value();
  const auto zeros = Segment::own(Bytes(checkpoint_piece_bytes));
  Bytes first(checkpoint_piece_bytes);
  std::ranges::copy(header, first.begin());

  ShareAssembly share;
  CheckpointPiece next;
  next.step = 3;
  next.share_bytes = header.size() + large;
  next.bytes = Segment::own(std::move(first));
  while (next.offset < next.share_bytes) {
    EXPECT_FALSE(share.is_whole());
    ASSERT_TRUE(share.add(next));
    next.offset += next.bytes.size();
    next.bytes = zeros.slice(0, std::min(checkpoint_piece_bytes, next.share_bytes - next.offset));
  }
  ASSERT_TRUE(share.is_whole());
  const auto joined = join_checkpoint(std::span(&share.bytes(), 1)).value();
  std::uint64_t bytes = 0;
  for (const BytesView view : joined.data) bytes += view.size();
  EXPECT_EQ(bytes, large);
}

}  // namespace
}  // namespace weir::protocol
