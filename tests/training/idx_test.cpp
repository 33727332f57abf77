#include "training/datasets/idx.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/errc.hpp"
#include "folder.hpp"

namespace weir::training {
namespace {

using Raw = std::vector<std::uint8_t>;

ByteSource source_of(Raw bytes) {
  return [bytes = std::move(bytes), at = std::size_t{0}](std::span<std::uint8_t> out) mutable -> Result<std::size_t> {
    const auto count = std::min(out.size(), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, out.begin());
    at += count;
    return count;
  };
}

const Raw two_by_three{0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};

TEST(Idx, ReadsExtentsAndElements) {
  const auto idx = read_idx(source_of(two_by_three), 2).value();
  EXPECT_EQ(idx.extents, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(idx.elements, (Raw{1, 2, 3, 4, 5, 6}));
}

TEST(Idx, EveryTruncationSaysSo) {
  for (std::size_t size = 0; size < two_by_three.size(); ++size) {
    const auto idx = read_idx(source_of(Raw(two_by_three.data(), two_by_three.data() + size)), 2);
    ASSERT_FALSE(idx) << size;
    EXPECT_EQ(idx.error().code, Errc::malformed);
    EXPECT_NE(idx.error().context.find("truncated"), std::string::npos) << idx.error().context;
  }
}

TEST(Idx, RefusesOtherTypesDimensionsAndTails) {
  auto floats = two_by_three;
  floats[2] = 0x0D;
  EXPECT_EQ(read_idx(source_of(floats), 2).error().code, Errc::malformed);
  EXPECT_EQ(read_idx(source_of(two_by_three), 3).error().code, Errc::malformed);
  auto longer = two_by_three;
  longer.push_back(7);
  EXPECT_EQ(read_idx(source_of(longer), 2).error().code, Errc::malformed);
}

TEST(Idx, AHeaderThatClaimsTooMuchTakesNoMemory) {
  const Raw huge{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  EXPECT_EQ(read_idx(source_of(huge), 3).error().code, Errc::malformed);
  const Raw large{0, 0, 8, 1, 255, 255, 255, 255, 1, 2, 3};
  const auto idx = read_idx(source_of(large), 1);
  ASSERT_FALSE(idx);
  EXPECT_NE(idx.error().context.find("ends after 11 of 4294967303 bytes"), std::string::npos) << idx.error().context;
}

TEST(Idx, ExtentsThatAreNotWantedEndItBeforeItsElements) {
  const Raw header(two_by_three.begin(), two_by_three.begin() + 12);
  std::vector<std::uint32_t> seen;
  const auto idx = read_idx(source_of(header), 2, [&](std::span<const std::uint32_t> extents) -> Result<void> {
    seen.assign(extents.begin(), extents.end());
    return Error{Errc::malformed, "not these"};
  });
  ASSERT_FALSE(idx);
  EXPECT_EQ(idx.error().context, "not these");
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{2, 3}));
}

TEST(Idx, ItsExtentsAreReadAlone) {
  const Raw header(two_by_three.begin(), two_by_three.begin() + 12);
  EXPECT_EQ(read_idx_extents(source_of(header), 2).value(), (std::vector<std::uint32_t>{2, 3}));
  const Raw huge{0, 0, 8, 2, 255, 255, 255, 255, 0, 0, 0, 2};
  EXPECT_EQ(read_idx_extents(source_of(huge), 2).error().code, Errc::malformed);
  const testing::Folder folder;
  folder.write("header", {reinterpret_cast<const char*>(header.data()), header.size()});
  EXPECT_EQ(read_idx_file_extents(folder / "header", 2).value(), (std::vector<std::uint32_t>{2, 3}));
  const auto other = read_idx_file_extents(folder / "header", 1).error();
  EXPECT_EQ(other.code, Errc::malformed);
  EXPECT_EQ(other.context.find(folder / "header"), 0u) << other.context;
  EXPECT_EQ(read_idx_file_extents(folder / "none", 2).error().code, Errc::not_found);
}

TEST(Idx, WhatTheSourceFailsWithIsPassedOn) {
  const ByteSource broken = [](std::span<std::uint8_t>) -> Result<std::size_t> { return Error{Errc::io, "disk"}; };
  EXPECT_EQ(read_idx(broken, 1).error().code, Errc::io);
}

TEST(Idx, OnlyFilesAreRead) {
  const testing::Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);  // nobody will ever write to it
  for (const auto& path : {folder / "pipe", folder.path()}) {
    const auto idx = read_idx_file(path, 2);
    ASSERT_FALSE(idx);
    EXPECT_EQ(idx.error().code, Errc::malformed);
    EXPECT_EQ(idx.error().context, path + " is not a file");
  }
  EXPECT_EQ(read_idx_file(folder / "none", 2).error().code, Errc::not_found);
}

}  // namespace
}  // namespace weir::training
