#include "api/openapi.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "api/router.hpp"

namespace weir::api {
namespace {

using nlohmann::json;

const json& document() {
  static const json parsed = json::parse(openapi_document("9.9.9"));
  return parsed;
}

TEST(OpenApi, HasExactlyTheRoutesOfTheTable) {
  std::set<std::string> served;
  for (const auto& route : routes()) {
    if (route.pattern == "*") continue;  // the dashboard's files are no interface
    std::string pattern(route.pattern);
    if (const auto dots = pattern.find("...}"); dots != std::string::npos) pattern.erase(dots, 3);
    served.insert(std::string(route.method) + " " + pattern);
  }
  std::set<std::string> documented;
  for (const auto& [path, methods] : document()["paths"].items())
    for (const auto& [method, operation] : methods.items()) {
      std::string name = method;
      for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
      documented.insert(name + " " + path);
    }
  EXPECT_EQ(served, documented);
}

TEST(OpenApi, RoutesSayWhatTheyAskForUnlessItIsTokenOrSession) {
  for (const auto& route : routes()) {
    if (route.pattern == "*") continue;
    std::string pattern(route.pattern);
    if (const auto dots = pattern.find("...}"); dots != std::string::npos) pattern.erase(dots, 3);
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    const auto& operation = document()["paths"][pattern][method];
    const json asked = route.guard == Guard::open     ? json::array()
                       : route.guard == Guard::bearer ? json::parse(R"([{"token": []}])")
                                                      : document()["security"];
    EXPECT_EQ(operation.value("security", document()["security"]), asked) << pattern;
    EXPECT_EQ(operation.contains("requestBody"), route.json_body) << pattern;
    EXPECT_TRUE(route.guard == Guard::open || operation["responses"].contains("401")) << pattern;
  }
}

void each_reference(const json& value, const std::function<void(const std::string&)>& visit) {
  if (value.is_object() && value.contains("$ref") && value["$ref"].is_string()) visit(value["$ref"]);
  if (value.is_structured())
    for (const auto& part : value) each_reference(part, visit);
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  each_reference(document(), [](const std::string& reference) {
    ASSERT_TRUE(reference.starts_with("#/")) << reference;
    EXPECT_TRUE(document().contains(json::json_pointer(reference.substr(1)))) << reference;
  });
}

/// The statuses with which a connection refuses requests before any route sees them, as its source names them, and
/// those of Access::check_origin() and of the choice of a route.
std::set<std::string> statuses_of_any_request() {
  std::ifstream file(WEIR_CONNECTION_SOURCE);
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> statuses{"400", "403", "405", "421"};
  static const std::regex refusal(R"(\bproblem\(([0-9]{3}),)");
  for (auto at = std::sregex_iterator(source.begin(), source.end(), refusal); at != std::sregex_iterator(); ++at)
    statuses.insert(at->str(1));
  return statuses;
}

TEST(OpenApi, EveryOperationHasTheAnswersThatAnyRequestMayGet) {
  const auto statuses = statuses_of_any_request();
  ASSERT_TRUE(statuses.contains("505")) << "the source is not where it was, or is written in another way";
  for (const auto& [path, methods] : document()["paths"].items())
    for (const auto& [method, operation] : methods.items()) {
      for (const auto& status : statuses)
        EXPECT_TRUE(operation["responses"].contains(status)) << method << " " << path << " " << status;
      EXPECT_EQ(operation["responses"].contains("412"), method != "get") << method << " " << path;
    }
  const auto revalidated = [](const char* path) {
    return document()["paths"][path]["get"]["responses"].contains("304");
  };
  EXPECT_TRUE(revalidated("/api/v1/jobs"));
  EXPECT_FALSE(revalidated("/api/v1/stream"));
  EXPECT_FALSE(revalidated("/api/v1/jobs/{id}/checkpoints/{step}"));
}

TEST(OpenApi, EveryResponseOfTheComponentsIsReferenced) {
  std::set<std::string> used;
  each_reference(document(), [&used](const std::string& reference) { used.insert(reference); });
  for (const auto& [name, response] : document()["components"]["responses"].items())
    EXPECT_TRUE(used.contains("#/components/responses/" + name)) << name;
}

TEST(OpenApi, SubmitDocumentsTheStatusOfAKeyThatWasUsedBefore) {
  const auto& submit = document()["paths"]["/api/v1/jobs"]["post"];  // JobsTest.IdempotencyKey shows what it answers
  EXPECT_TRUE(submit["responses"].contains("422"));
  EXPECT_FALSE(submit["responses"].contains("409"));
  EXPECT_EQ(submit["parameters"][0]["description"].get<std::string>().find("409"), std::string::npos);
}

TEST(OpenApi, AStreamOfAnUnknownJobIsNotFound) {
  const auto& responses = document()["paths"]["/api/v1/stream"]["get"]["responses"];  // as StreamTest shows
  EXPECT_TRUE(responses.contains("404"));
}

TEST(OpenApi, MetricsTakeANumberOfPointsOrAll) {
  for (const auto& parameter : document()["paths"]["/api/v1/jobs/{id}/metrics"]["get"]["parameters"]) {
    if (parameter["name"] != "points") continue;
    EXPECT_EQ(parameter["schema"]["anyOf"][0]["maximum"], 5000);
    EXPECT_EQ(parameter["schema"]["anyOf"][1]["const"], "all");
  }
}

TEST(OpenApi, HasTheVersionAndTheSchemaOfJobSpecs) {
  EXPECT_EQ(document()["openapi"], "3.1.0");
  EXPECT_EQ(document()["info"]["version"], "9.9.9");
  EXPECT_TRUE(document()["components"]["schemas"]["JobSpec"]["properties"].contains("compression"));
}

}  // namespace
}  // namespace weir::api
