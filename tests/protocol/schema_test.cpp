#include "protocol/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::protocol {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

auto at(const char* pointer) { return Field(&Problem::pointer, pointer); }

const json schema = json::parse(R"({
  "type": "object", "required": ["ratio"], "additionalProperties": false,
  "properties": {
    "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "steps": {"type": ["integer", "null"], "minimum": 1, "default": null},
    "name":  {"type": "string", "minLength": 1, "maxLength": 3, "default": "abc"},
    "kind":  {"type": "string", "enum": ["pack", "spread"], "default": "pack"},
    "list":  {"type": "array", "items": {"type": "integer"}, "maxItems": 3, "default": []},
    "inner": {"type": "object", "default": {}, "properties": {"deep": {"type": "boolean", "default": true}}},
    "free":  {"type": "object", "additionalProperties": {"type": "number"}, "default": {}}
  }})");

TEST(Schema, FillsDefaultsAlsoInsideDefaults) {
  json document = {{"ratio", 0.5}};
  EXPECT_THAT(check_and_complete(schema, document), IsEmpty());
  EXPECT_EQ(document, json::parse(R"({"ratio":0.5,"steps":null,"name":"abc","kind":"pack","list":[],
                                      "inner":{"deep":true},"free":{}})"));
}

TEST(Schema, PointsAtEveryProblem) {
  json document = json::parse(R"({"free": {"a/b": "x"}, "kind": "packed", "list": [1, "two", 3, 4], "name": "",
                                  "ratio": 0, "steps": 1.5})");
  EXPECT_THAT(check_and_complete(schema, document, "/params"),
              ElementsAre(at("/params/free/a~1b"), at("/params/kind"), at("/params/list"), at("/params/list/1"),
                          at("/params/name"), at("/params/ratio"), at("/params/steps")));
}

TEST(Schema, WantsMultiples) {
  const json of_64 = {{"type", "integer"}, {"multipleOf", 64}};
  for (const int fitting : {-64, 0, 64, 512}) {
    json document = fitting;
    EXPECT_THAT(check_and_complete(of_64, document), IsEmpty()) << fitting;
  }
  json document = 100;
  EXPECT_THAT(check_and_complete(of_64, document), ElementsAre(Problem{"", "must be a multiple of 64"}));
}

TEST(Schema, NamesTheNearestKnownField) {
  json document = {{"ratoi", 1}, {"zzz", 1}};
  const auto problems = check_and_complete(schema, document);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].pointer, "/ratoi");
  EXPECT_EQ(problems[0].suggestion, "ratio");
  EXPECT_EQ(problems[1].pointer, "/zzz");
  EXPECT_EQ(problems[1].suggestion, "");
  EXPECT_THAT(problems[1].message, HasSubstr("known are"));
  EXPECT_EQ(problems[2], (Problem{"/ratio", "is required"}));
}

TEST(Schema, TellsTypesApart) {
  json wrong = json::array();
  EXPECT_EQ(check_and_complete(schema, wrong).at(0), (Problem{"", "must be an object, not an array"}));
  json document = {{"ratio", "0.1"}, {"steps", "x"}};
  EXPECT_THAT(check_and_complete(schema, document),
              ElementsAre(Problem{"/ratio", "must be a number, not a string"},
                          Problem{"/steps", "must be an integer or null, not a string"}));
}

TEST(Schema, AWholeNumberIsAnInteger) {
  json document = {{"ratio", 1}, {"steps", 3.0}};
  EXPECT_THAT(check_and_complete(schema, document), IsEmpty());
  EXPECT_TRUE(document["steps"].is_number_integer());
  document["steps"] = 1e300;
  EXPECT_THAT(check_and_complete(schema, document), ElementsAre(at("/steps")));
}

TEST(Schema, CountsCharactersNotBytes) {
  json document = {{"ratio", 1}, {"name", "äöü"}};
  EXPECT_THAT(check_and_complete(schema, document), IsEmpty());
}

TEST(Schema, LimitsNames) {
  const json names = json::parse(R"({"type": "object", "maxProperties": 2, "propertyNames": {"maxLength": 3},
                                     "additionalProperties": {"type": "number"}})");
  json fitting = {{"a", 1}, {"äöü", 2}};
  EXPECT_THAT(check_and_complete(names, fitting), IsEmpty());
  json many = {{"a", 1}, {"b", 2}, {"c", "x"}};
  EXPECT_THAT(check_and_complete(names, many, "/each"), ElementsAre(Problem{"/each", "must have at most 2 names"}));
  json longer = {{"a", 1}, {"abcd", "x"}};
  EXPECT_THAT(check_and_complete(names, longer, "/each"),
              ElementsAre(Problem{"/each", "has a name of more than 3 characters"}));
}

TEST(Schema, TellsOfTheFirstHundredProblems) {
  json document = {{"ratio", 1}};
  for (int i = 0; i < 100'000; ++i) document["ratio" + std::to_string(i)] = i;
  const auto problems = check_and_complete(schema, document, "/params");
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_EQ(problems[0], (Problem{"/params/ratio0", "is not a known field; did you mean \"ratio\"?", "ratio"}));
  EXPECT_EQ(problems[50].suggestion, "") << "names are compared for the first problems only";
  EXPECT_EQ(problems[100], (Problem{"", "and more: the first 100 problems are listed"}));
  json list = {{"ratio", 1}, {"free", json::object()}};
  for (int i = 0; i < 100; ++i) list["free"]["x" + std::to_string(i)] = "y";
  EXPECT_EQ(check_and_complete(schema, list).size(), 100u) << "and no more";
}

TEST(NearestName, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("lenett", {"lenet", "mlp"}), "lenet");
  EXPECT_EQ(nearest_name("resnet50", {"lenet", "mlp"}), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), {"lenet"}), "");
  EXPECT_EQ(nearest_name("", {"lenet"}), "");
}

}  // namespace
}  // namespace weir::protocol
