#include "base/philox.hpp"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(Philox(0).at(Philox::Block{}), (Philox::Block{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  constexpr std::uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(Philox(~std::uint64_t{0}).at(Philox::Block{ones, ones, ones, ones}),
            (Philox::Block{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(Philox(0x299F31D0A4093822).at(Philox::Block{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}),
            (Philox::Block{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, BelowStaysBelow) {
  EXPECT_EQ(Philox::below(97, 0), 0);
  EXPECT_EQ(Philox::below(97, 0xFFFFFFFF), 96);
  EXPECT_EQ(Philox::below(1, 0xFFFFFFFF), 0);
}

}  // namespace
}  // namespace weir
