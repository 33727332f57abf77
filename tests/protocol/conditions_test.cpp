#include "protocol/conditions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/job_spec.hpp"
#include "test_catalog.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json catalog() {
  json catalog = test_catalog();
  for (json& mode : catalog["modes"]) mode["params"] = with_conditions(mode["params"]);
  return catalog;
}

json job(json params, int workers = 2) {
  return {{"model", {{"name", "lenet"}}},
          {"dataset", {{"name", "fashion-mnist"}}},
          {"training", {{"params", std::move(params)}}},
          {"resources", {{"workers", workers}}}};
}

std::vector<Problem> problems_of(json spec) { return normalize_job_spec(spec, catalog()); }

TEST(Conditions, RatesAreNumbersOfBitsPerSecond) {
  EXPECT_EQ(parse_rate("none"), 0);
  EXPECT_EQ(parse_rate("100mbit"), 100e6);
  EXPECT_EQ(parse_rate("2.5gbit"), 2.5e9);
  EXPECT_EQ(parse_rate("1kbit"), 1000);
  for (const char* text : {"", "100", "mbit", "-1mbit", "0mbit", "0.5kbit", "1e3mbit", "100 mbit", "100mb", "100Mbit",
                           "nanmbit", "infgbit", "1mbit ", "1mbit/s", "10000000gbit", "0x10mbit"}) {
    EXPECT_EQ(parse_rate(text), std::nullopt) << text;
  }
}

TEST(Conditions, AreOfTheRanksThatAreListed) {
  json spec = job({{"slowdown", {1, 2.5}}, {"link_rate", {"none", "8mbit"}}}, 3);
  ASSERT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  const auto conditions = parse_job_spec(spec).value().training.conditions;
  EXPECT_EQ(conditions.slowdown_of(0), 1);
  EXPECT_EQ(conditions.slowdown_of(1), 2.5);
  EXPECT_EQ(conditions.slowdown_of(2), 1);
  EXPECT_EQ(conditions.link_bytes_per_second(0), 0);
  EXPECT_EQ(conditions.link_bytes_per_second(1), 1e6);
  EXPECT_EQ(conditions.link_bytes_per_second(2), 0);
}

TEST(Conditions, AreNoneByDefault) {
  json spec = job(json::object());
  ASSERT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  const auto conditions = parse_job_spec(spec).value().training.conditions;
  EXPECT_EQ(conditions.slowdown_of(0), 1);
  EXPECT_EQ(conditions.link_bytes_per_second(0), 0);
  EXPECT_EQ(read_conditions(nullptr).slowdown_of(0), 1) << "of a spec that is not complete";
}

TEST(Conditions, ErrorsSayWhereAndWhatToWrite) {
  EXPECT_THAT(problems_of(job({{"slowdown", {1, 0.5}}})),
              ElementsAre(Problem{"/training/params/slowdown/1", "must be at least 1"}));
  EXPECT_THAT(problems_of(job({{"slowdown", {1, 1, 1}}})),
              ElementsAre(Problem{"/training/params/slowdown", "has 3 entries, and the job has 2 workers"}));
  EXPECT_THAT(problems_of(job({{"link_rate", {"none", "none"}}}, 1)),
              ElementsAre(Problem{"/training/params/link_rate", "has 2 entries, and the job has 1 worker"}));
  const auto rates = problems_of(job({{"link_rate", {"none", "100mb"}}}));
  ASSERT_EQ(rates.size(), 1U);
  EXPECT_EQ(rates[0].pointer, "/training/params/link_rate/1");
  EXPECT_THAT(rates[0].message, HasSubstr("\"100mb\" is no rate: write \"none\", or a number of kbit, mbit or gbit"));
  EXPECT_THAT(problems_of(job({{"link_rate", {7}}})),
              ElementsAre(Problem{"/training/params/link_rate/0", "must be a string, not an integer"}));
  EXPECT_THAT(problems_of(job({{"slowdown", 2}})),
              ElementsAre(Problem{"/training/params/slowdown", "must be an array, not an integer"}));
}

TEST(Conditions, AreNoParametersOfAModeItself) {
  const json own = {{"period", 4}};
  json all = own;
  all["slowdown"] = {1, 2};
  all["link_rate"] = json::array();
  EXPECT_EQ(without_conditions(all), own);
  EXPECT_EQ(without_conditions(nullptr), json());
}

}  // namespace
}  // namespace weir::protocol
