#include "base/pieces.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace weir {
namespace {

Segment segment(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Segment::own(Bytes(bytes.data(), bytes.data() + bytes.size()));
}

std::string text(BytesView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

TEST(Pieces, AreReadAcrossTheirBorders) {
  const std::string whole = "abcdefgh";
  Pieces pieces(segment("abc"));
  for (const char* more : {"d", "", "efgh"}) pieces.add(segment(more));
  ASSERT_EQ(pieces.size(), whole.size());
  for (std::size_t offset = 0; offset <= whole.size(); ++offset) {
    for (std::size_t bytes = 0; bytes <= whole.size() - offset; ++bytes) {
      EXPECT_EQ(text(pieces.copy(offset, bytes)), whole.substr(offset, bytes)) << offset << ", " << bytes;
    }
  }
}

TEST(Pieces, ViewsAreOfTheSegmentsThemselves) {
  const Segment first = segment("abc");
  Pieces pieces(first);
  pieces.add(segment("def"));
  std::vector<BytesView> views;
  pieces.append_views(1, 4, views);
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].data(), first.bytes().data() + 1);
  EXPECT_EQ(text(views[0]), "bc");
  EXPECT_EQ(text(views[1]), "de");
}

TEST(Pieces, OfNothingHoldNothing) {
  EXPECT_EQ(Pieces().size(), 0u);
  EXPECT_TRUE(Pieces().copy(0, 0).empty());
  EXPECT_EQ(Pieces(Segment()).size(), 0u);
}

TEST(Segment, ASliceKeepsTheWholeAlive) {
  Segment slice;
  {
    const Segment whole = segment("abcdef");
    slice = whole.slice(2, 3);
    EXPECT_EQ(slice.bytes().data(), whole.bytes().data() + 2);
  }
  EXPECT_EQ(text(slice.bytes()), "cde");
}

}  // namespace
}  // namespace weir
