#include "cuda/nccl_rendezvous.hpp"

#include <gtest/gtest.h>

#include "base/errc.hpp"

namespace weir::cuda {
namespace {

TEST(NcclState, SurvivesTheWire) {
  const NcclState state{.version = 22809, .node = "node-a", .reason = "none"};
  const NcclState same = decode_nccl_state(encode(state)).value();
  EXPECT_EQ(same.version, 22809);
  EXPECT_EQ(same.node, "node-a");
  EXPECT_EQ(same.reason, "none");
}

TEST(NcclState, HasABoundedLength) {
  const NcclState state{.version = 0, .node = std::string(200, 'n'), .reason = std::string(2000, 'r')};
  const Bytes bytes = encode(state);
  EXPECT_EQ(bytes.size(), 512U);
  EXPECT_EQ(decode_nccl_state(bytes).value().node, std::string(64, 'n'));
}

TEST(NcclState, OfAPeerIsNotTrusted) {
  Bytes bytes = encode({.version = 1, .node = "a\x1b[2J", .reason = "\n"});
  EXPECT_EQ(decode_nccl_state(bytes).value().node, "a?[2J");
  EXPECT_EQ(decode_nccl_state(bytes).value().reason, "?");
  bytes[4] = std::byte{60};  // a longer name than there are bytes
  EXPECT_EQ(decode_nccl_state(bytes).error().code, Errc::malformed);
  bytes.resize(4);
  EXPECT_EQ(decode_nccl_state(bytes).error().code, Errc::malformed);
  bytes = encode({.version = -1, .node = {}, .reason = {}});
  EXPECT_EQ(decode_nccl_state(bytes).error().code, Errc::malformed);
  EXPECT_EQ(decode_nccl_state(Bytes(513, std::byte{0})).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::cuda
