#include "base/utf8.hpp"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(Utf8, KnowsWhatIsText) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Utf8, FindsACharacterThatIsCutAtTheEnd) {
  for (const char* whole : {"", "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x80\x80\x80\x80", "\xe2\x82 a"})
    EXPECT_EQ(unfinished_tail(whole), 0U) << whole;
  EXPECT_EQ(unfinished_tail("\xc3"), 1U);
  EXPECT_EQ(unfinished_tail("ab\xe2\x82"), 2U);
  EXPECT_EQ(unfinished_tail("\xe2\x82\xac\xf0\x9f\x98"), 3U);
}

}  // namespace
}  // namespace weir
