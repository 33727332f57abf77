#include "base/hmac.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

BytesView bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string hex(const Digest& digest) {
  std::string text;
  for (std::byte b : digest) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

TEST(Hmac, GivesTheAnswersOfRfc4231) {
  EXPECT_EQ(hex(hmac_sha256("Jefe", {bytes("what do ya want "), bytes("for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(hmac_sha256(std::string(131, '\xaa'), {bytes("Test Using Larger Than Block-Size Key - Hash Key First")})),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, ComparesDigests) {
  const Digest a = hmac_sha256("key", {bytes("a")});
  Digest b = a;
  EXPECT_TRUE(equal_in_constant_time(a, b));
  b[31] ^= std::byte{1};
  EXPECT_FALSE(equal_in_constant_time(a, b));
}

TEST(Hmac, RandomDigestsDiffer) { EXPECT_NE(random_digest(), random_digest()); }

}  // namespace
}  // namespace weir
