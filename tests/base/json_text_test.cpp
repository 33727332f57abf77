#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/errc.hpp"

namespace weir {
namespace {

std::string fault_of(std::string_view text) {
  const auto parsed = parse_json_text(text);
  if (parsed) return "none";
  EXPECT_EQ(parsed.error().code, Errc::malformed);
  return parsed.error().context;
}

TEST(JsonText, GivesWhatTheTextSays) {
  const std::string text = R"({"a":[1,-2,0.5,"x",true,null],"b":{"a":{}},"c":[{"a":1},{"a":2}]})";
  EXPECT_EQ(parse_json_text(text).value().dump(), text);
  EXPECT_EQ(parse_json_text("7").value(), 7);
}

TEST(JsonText, RefusesAKeyThatIsTwiceInOneObject) {
  EXPECT_EQ(fault_of(R"({"a":1,"b":{"a":2},"a":3})"), "has the key \"a\" twice in one object");
  EXPECT_EQ(fault_of(R"([{"b":{"c":1,"\u0063":2}}])"), "has the key \"c\" twice in one object");
}

TEST(JsonText, RefusesWhatIsNested) {
  EXPECT_EQ(fault_of(std::string(64, '[') + std::string(64, ']')), "none");
  EXPECT_EQ(fault_of(std::string(65, '[') + std::string(65, ']')), "is nested deeper than 64 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(fault_of(objects), "is nested deeper than 64 levels");
}

TEST(JsonText, RefusesWhatIsNotJson) {
  EXPECT_EQ(fault_of("[1,]").find("is not JSON: parse error at line 1, column 4"), 0u) << fault_of("[1,]");
  for (const char* text : {"", "{", "nul", "[1] x", "\"\xff\"", "'a'", "[1e999]"}) {
    EXPECT_EQ(fault_of(text).find("is not JSON: "), 0u) << text;
  }
}

/// To look at all values of the array after each object takes half an hour.
TEST(JsonText, ManyObjectsOfAnArrayTakeTheTimeOfTheirBytes) {
  std::string text = "[{}";
  for (int i = 1; i < 1'500'000; ++i) text += ",{}";
  EXPECT_EQ(parse_json_text(text + "]").value().size(), 1'500'000u);
}

}  // namespace
}  // namespace weir
