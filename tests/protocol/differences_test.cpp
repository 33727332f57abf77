#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/job_spec.hpp"
#include "test_catalog.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// With a mode whose workers exchange differences between their models.
json catalog() {
  json catalog = test_catalog();
  json local = catalog["modes"][0];
  local["name"] = "local";
  local["exchanges"] = "differences";
  catalog["modes"].push_back(local);
  local["name"] = "pushing";
  local["exchanges"] = "pushes";
  catalog["modes"].push_back(local);
  for (json& memory : catalog["memories"]) {
    if (memory["name"] == "dgc") memory["differences_misfit"] = "it applies momentum";
    if (memory["name"] == "residual") memory["pushes_misfit"] = "it needs the mean";
    if (memory["name"] != "residual") continue;
    memory["params"] = {{"type", "object"},
                        {"additionalProperties", false},
                        {"properties", {{"momentum", {{"type", "number"}, {"default", 0}}}}}};
    memory["momentum_params"] = {"momentum"};
  }
  for (json& compressor : catalog["compressors"]) {
    if (compressor["name"] == "powersgd") compressor["differences_misfit"] = "it votes";
    if (compressor["name"] == "powersgd") compressor["pushes_misfit"] = "it takes several passes";
    if (compressor["name"] != "dgc") continue;
    compressor["memory_misfits"] = json::object();
    compressor["memory_for_differences"] = "residual";
  }
  return catalog;
}

json job(const char* mode, json compression) {
  return {{"model", {{"name", "lenet"}}},
          {"dataset", {{"name", "fashion-mnist"}}},
          {"training", {{"mode", mode}}},
          {"compression", std::move(compression)}};
}

std::vector<Problem> problems_of(json spec) { return normalize_job_spec(spec, catalog()); }

TEST(Differences, HaveAMemoryOfTheirOwnByDefault) {
  json spec = job("local", {{"name", "dgc"}});
  EXPECT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  EXPECT_EQ(spec["compression"]["memory"], "residual");
  spec = job("sync", {{"name", "dgc"}});
  EXPECT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  EXPECT_EQ(spec["compression"]["memory"], "dgc");
  spec = job("local", {{"name", "topk"}});
  EXPECT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  EXPECT_EQ(spec["compression"]["memory"], "residual") << "that of the compressor";
}

TEST(Differences, AreNotForAllCompressorsAndMemories) {
  const std::string of_mode =
      "does not fit training mode \"local\": workers exchange differences between their models, and ";
  EXPECT_THAT(problems_of(job("local", {{"name", "powersgd"}})),
              ElementsAre(Problem{"/compression/name", "compressor \"powersgd\" " + of_mode + "it votes"}));
  EXPECT_THAT(problems_of(job("local", {{"name", "dgc"}, {"memory", "dgc"}})),
              ElementsAre(Problem{"/compression/memory", "memory \"dgc\" " + of_mode +
                                                             "it applies momentum; it takes [\"none\",\"residual\"]"}));
  EXPECT_THAT(problems_of(job("local", {{"name", "topk"}, {"memory_params", {{"momentum", 0.5}}}})),
              ElementsAre(Problem{"/compression/memory_params/momentum",
                                  "memory \"residual\" " + of_mode +
                                      "with this momentum it replaces the optimizers', which they have applied; it "
                                      "takes 0"}));
  EXPECT_THAT(problems_of(job("local", {{"name", "topk"}, {"memory_params", {{"momentum", 0}}}})), IsEmpty());
}

TEST(Differences, AreWhatTravelsWhereCompressionAppliesToModels) {
  json spec = job("sync", {{"name", "dgc"}, {"apply_to", "models"}});
  EXPECT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  EXPECT_EQ(spec["compression"]["memory"], "residual");
  EXPECT_THAT(problems_of(job("sync", {{"name", "powersgd"}, {"apply_to", "models"}})),
              ElementsAre(Problem{"/compression/name",
                                  "compressor \"powersgd\" does not fit compression.apply_to \"models\": workers "
                                  "exchange differences between their models, and it votes"}));
}

TEST(Differences, NothingIsExchangedByOneWorkerOnly) {
  json alone = catalog();
  for (json& mode : alone["modes"]) {
    if (mode["name"] == "local") mode["exchanges"] = "nothing";
  }
  json spec = job("local", {{"name", "none"}});
  EXPECT_THAT(normalize_job_spec(spec, alone), IsEmpty());
  spec["resources"]["workers"] = 2;
  spec["resources"]["min_workers"] = 2;
  EXPECT_THAT(normalize_job_spec(spec, alone),
              ElementsAre(Problem{"/resources/workers",
                                  "training mode \"local\" exchanges nothing: it trains on one worker, and the job has "
                                  "2"}));
  EXPECT_THAT(normalize_job_spec(spec = job("local", {{"name", "topk"}}), alone),
              ElementsAre(Problem{"/compression/name",
                                  "training mode \"local\" exchanges nothing, so that there is nothing to compress; it "
                                  "takes \"none\""}));
}

TEST(Aggregation, FitsWhatTheCompressorsPayloadsLeadTo) {
  json with_traits = catalog();
  for (json& compressor : with_traits["compressors"]) {
    const bool plain = compressor["name"] == "none";
    compressor["traits"]["votes"] = compressor["name"] == "powersgd";
    compressor["traits"]["lossless"] = plain;
    compressor["traits"]["passes"] = {plain ? "sum" : "gather"};
  }
  const auto message = [&](const char* compressor, const char* aggregation) {
    json spec = job("sync", {{"name", compressor}, {"aggregation", aggregation}});
    const auto problems = normalize_job_spec(spec, with_traits);
    if (problems.empty()) return std::string();
    EXPECT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].pointer, "/compression/aggregation");
    return problems[0].message;
  };
  for (const char* any : {"mean", "sum", "min", "max", "weighted"}) EXPECT_EQ(message("none", any), "") << any;
  for (const char* linear : {"mean", "sum", "weighted"}) EXPECT_EQ(message("topk", linear), "") << linear;
  EXPECT_EQ(message("topk", "min"),
            "\"min\" does not fit compressor \"topk\": it is found among uncompressed values only, which compressor "
            "\"none\" sends");
  EXPECT_EQ(message("powersgd", "mean"), "");
  EXPECT_EQ(message("powersgd", "sum"),
            "\"sum\" does not fit compressor \"powersgd\": the workers agree on signs, each with one vote; it takes "
            "\"mean\"");
  json spec = job("sync", {{"name", "none"}, {"aggregation", "median"}});
  const auto unknown = normalize_job_spec(spec, with_traits);
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].pointer, "/compression/aggregation");
}

TEST(Differences, GradientsAreNotJudgedByThem) {
  EXPECT_THAT(problems_of(job("sync", {{"name", "powersgd"}})), IsEmpty());
  EXPECT_THAT(problems_of(job("sync", {{"name", "dgc"}, {"memory", "dgc"}})), IsEmpty());
  EXPECT_THAT(problems_of(job("sync", {{"name", "topk"}, {"memory_params", {{"momentum", 0.5}}}})), IsEmpty());
}

TEST(Pushes, AreNotForAllCompressorsAndMemories) {
  const std::string of_mode = "does not fit training mode \"pushing\", whose workers push gradients to servers: ";
  EXPECT_THAT(
      problems_of(job("pushing", {{"name", "powersgd"}, {"memory", "none"}})),
      ElementsAre(Problem{"/compression/name", "compressor \"powersgd\" " + of_mode + "it takes several passes"}));
  EXPECT_THAT(problems_of(job("pushing", {{"name", "topk"}, {"memory", "residual"}})),
              ElementsAre(Problem{"/compression/memory", "memory \"residual\" " + of_mode + "it needs the mean"}));
  EXPECT_THAT(problems_of(job("pushing", {{"name", "dgc"}, {"memory", "dgc"}})), IsEmpty());
}

TEST(Differences, OfAnUnknownModeNothingIsSaid) {
  const auto problems = problems_of(job("lokal", {{"name", "powersgd"}}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].pointer, "/training/mode");
}

}  // namespace
}  // namespace weir::protocol
