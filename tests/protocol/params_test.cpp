#include "protocol/params.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::protocol {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Options {
  double ratio = 0.5;
  double decay = 0;
  std::int64_t rank = 2;
  std::int64_t depth = 20;
  bool sign = true;
  std::string codec = "auto";
  std::optional<double> clip = std::nullopt;
  std::vector<std::int64_t> widths = {};
  std::vector<double> milestones = {30, 60.5};
};

Params<Options> params() {
  return Params<Options>()
      .number("ratio", &Options::ratio, {.exclusive_minimum = 0, .maximum = 1}, "Share.")
      .number("decay", &Options::decay, {.minimum = 0, .multiple_of = 0.25}, "")
      .integer("rank", &Options::rank, {.minimum = 1, .exclusive_maximum = INT64_MAX}, "Columns.")
      .choice("depth", &Options::depth, {8, 20}, "Layers.")
      .flag("sign", &Options::sign, "Whether.")
      .choice(
          "codec", [](Options& options) -> std::string& { return options.codec; }, {"auto", "raw"}, "How.")
      .optional_number("clip", &Options::clip, {.minimum = 0.0}, "Null: none.")
      .integers("widths", &Options::widths, {.minimum = 1}, 3, "Several.")
      .numbers("milestones", &Options::milestones, {.exclusive_minimum = 0}, 3, "Epochs.");
}

TEST(Params, DescribeThemselvesAsASchema) {
  const json expected = json::parse(R"({
    "type": "object",
    "additionalProperties": false,
    "properties": {
      "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.5, "description": "Share."},
      "decay": {"type": "number", "minimum": 0, "multipleOf": 0.25, "default": 0},
      "rank": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9223372036854775807, "default": 2,
               "description": "Columns."},
      "depth": {"type": "integer", "enum": [8, 20], "default": 20, "description": "Layers."},
      "sign": {"type": "boolean", "default": true, "description": "Whether."},
      "codec": {"type": "string", "enum": ["auto", "raw"], "default": "auto", "description": "How."},
      "clip": {"type": ["number", "null"], "minimum": 0.0, "default": null, "description": "Null: none."},
      "widths": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3, "default": [],
                 "description": "Several."},
      "milestones": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "maxItems": 3,
                     "default": [30, 60.5], "description": "Epochs."}}})");
  EXPECT_EQ(params().schema().dump(), expected.dump());
  EXPECT_EQ(Params<NoOptions>().schema(), empty_schema());
}

struct Part {
  std::string name;
  double share = 1;
};
struct Whole {
  std::vector<Part> parts{};
};

TEST(Params, MayBeListsOfObjects) {
  const auto part =
      Params<Part>().required_text("name", &Part::name, 5, "Which.").number("share", &Part::share, {.minimum = 0}, "");
  const auto whole = Params<Whole>().objects("parts", &Whole::parts, part, 2, "Some.");
  EXPECT_EQ(whole.schema(), json::parse(R"({"type": "object", "additionalProperties": false, "properties": {
      "parts": {"type": "array", "maxItems": 2, "default": [], "description": "Some.", "items": {
        "type": "object", "additionalProperties": false, "required": ["name"], "properties": {
          "name": {"type": "string", "minLength": 1, "maxLength": 5, "description": "Which."},
          "share": {"type": "number", "minimum": 0, "default": 1}}}}}})"));
  Whole value;
  EXPECT_THAT(whole.read(nullptr, value), IsEmpty());
  EXPECT_THAT(value.parts, IsEmpty());
  EXPECT_THAT(whole.read(json::parse(R"({"parts": [{"name": "one"}, {"name": "two", "share": 3}]})"), value),
              IsEmpty());
  ASSERT_EQ(value.parts.size(), 2u);
  EXPECT_EQ(value.parts[0].name, "one");
  EXPECT_EQ(value.parts[0].share, 1);
  EXPECT_EQ(value.parts[1].share, 3);
  const auto problems = whole.read(json::parse(R"({"parts": [{"share": 1}, {"name": "", "share": -1}]})"), value);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].pointer, "/parts/0/name");
  EXPECT_EQ(problems[1].pointer, "/parts/1/name");
  EXPECT_EQ(problems[2].pointer, "/parts/1/share");
}

TEST(Params, AreWrittenToThePlainStruct) {
  Options options;
  const json given = {{"ratio", 1}, {"decay", 0.25},    {"rank", 3.0},
                      {"depth", 8}, {"sign", false},    {"codec", "raw"},
                      {"clip", 2},  {"widths", {7, 5}}, {"milestones", {1, 2.5}}};
  EXPECT_THAT(params().read(given, options), IsEmpty());
  EXPECT_EQ(options.ratio, 1);
  EXPECT_EQ(options.decay, 0.25);
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.depth, 8);
  EXPECT_FALSE(options.sign);
  EXPECT_EQ(options.codec, "raw");
  EXPECT_EQ(options.clip, 2);
  EXPECT_EQ(options.widths, (std::vector<std::int64_t>{7, 5}));
  EXPECT_THAT(options.milestones, ElementsAre(1, 2.5));
  for (const json& wrong : {json{1, 0}, json{1, 2, 3, 4}, json{"1"}, json(1)}) {
    EXPECT_EQ(params().read({{"milestones", wrong}}, options).size(), 1u) << wrong;
  }
}

TEST(Params, NotGivenAreTheDefaults) {
  for (const json& given : {json(nullptr), json::object(), json{{"clip", nullptr}}}) {
    Options options;
    EXPECT_THAT(params().read(given, options), IsEmpty());
    EXPECT_EQ(options.ratio, 0.5);
    EXPECT_EQ(options.rank, 2);
    EXPECT_EQ(options.clip, std::nullopt);
  }
}

TEST(Params, WrongOnesLeaveTheStructAlone) {
  Options options;
  EXPECT_THAT(params().read({{"rank", 3}, {"ratio", 2}, {"codek", "raw"}}, options),
              ElementsAre(Problem{"/codek", "is not a known field; did you mean \"codec\"?", "codec"},
                          Problem{"/ratio", "must be at most 1"}));
  EXPECT_EQ(options.rank, 2);
  EXPECT_THAT(params().read("fast", options), ElementsAre(Problem{"", "must be an object, not a string"}));
  EXPECT_THAT(params().read({{"depth", 9}}, options), ElementsAre(Problem{"/depth", "must be one of 8, 20"}));
}

struct Sizes {
  std::string kind = "square";
  std::int64_t side = 2;
  std::int64_t height = 3;
  std::vector<std::int64_t> corners = {};
};

Params<Sizes> sizes() {
  return Params<Sizes>()
      .choice("kind", &Sizes::kind, {"square", "oblong", "ring"}, "")
      .integer("side", &Sizes::side, {.minimum = 0, .maximum = 1000}, "")
      .integer("height", &Sizes::height, {.minimum = 0, .maximum = 1000}, "")
      .integers("corners", &Sizes::corners, {.minimum = 1}, 4, "")
      .only_where("height", "kind", {{"const", "oblong"}})
      .only_where("side", "kind", {{"enum", {"square", "oblong"}}})
      .only_where("side", "corners", {{"maxItems", 0}});
}

TEST(Params, MayChangeSomethingOnlyBesideOthers) {
  const auto said = [](const json& params) {
    Sizes options;
    return sizes().read(params, options);
  };
  EXPECT_THAT(said({{"side", 5}}), IsEmpty());
  EXPECT_THAT(said({{"kind", "oblong"}, {"side", 5}, {"height", 7}}), IsEmpty());
  EXPECT_THAT(said({{"kind", "ring"}, {"side", 2}, {"height", 3}}), IsEmpty())
      << "the defaults, as in a normalized spec";
  EXPECT_THAT(
      said({{"height", 4}}),
      ElementsAre(Problem{"/height", "has no effect here: for that, \"kind\" must be \"oblong\"; leave it out"}));
  EXPECT_THAT(
      said({{"kind", "ring"}, {"side", 5}}),
      ElementsAre(Problem{
          "/side", "has no effect here: for that, \"kind\" must be one of \"square\", \"oblong\"; leave it out"}));
  EXPECT_THAT(said({{"side", 5}, {"corners", {1}}}),
              ElementsAre(Problem{
                  "/side", "has no effect here: for that, \"corners\" must have at most 0 items; leave it out"}));
  EXPECT_THAT(said({{"kind", "disc"}, {"height", 4}}), ::testing::SizeIs(1)) << "one thing at a time";
  EXPECT_EQ(sizes().schema().at("properties").at("height").at("onlyWhere"), (json{{"kind", {{"const", "oblong"}}}}));
}

TEST(Params, MayBeLimitedByOthers) {
  const auto params = Params<Sizes>()
                          .integer("side", &Sizes::side, {.minimum = 0, .maximum = 1000}, "")
                          .integer("height", &Sizes::height, {.minimum = 0, .maximum = 1000}, "")
                          .at_most("side", "height")
                          .product_at_most({"height", "side"}, 100, "cells");
  const auto said = [&](const json& given) {
    Sizes options;
    return params.read(given, options);
  };
  EXPECT_THAT(said({{"side", 10}, {"height", 10}}), IsEmpty());
  EXPECT_THAT(said({{"side", 4}}), ElementsAre(Problem{"/side", "must be at most \"height\", which is 3"}));
  EXPECT_THAT(said({{"side", 10}, {"height", 11}}),
              ElementsAre(Problem{"/side", "makes too many cells: height * side is 110, and must be at most 100"}));
}

TEST(ParamsDeathTest, SpeakOnlyOfThoseDeclared) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Params<Sizes>().integer("side", &Sizes::side, {}, "").at_most("side", "height"), "not declared");
}

TEST(Params, AWholeDefaultIsWrittenLikeItsLimits) {
  EXPECT_EQ(written_like({.minimum = 0}, 3).dump(), "3");
  EXPECT_EQ(written_like({.maximum = 1.0}, 3).dump(), "3.0");
  EXPECT_EQ(written_like({}, 3).dump(), "3.0");
  EXPECT_EQ(written_like({.exclusive_maximum = 1}, 0.5).dump(), "0.5");
}

}  // namespace
}  // namespace weir::protocol
