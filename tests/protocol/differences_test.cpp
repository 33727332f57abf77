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
  local["name"] = "served";
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
      "does not fit training mode \"local\", whose workers exchange differences between their models: ";
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

TEST(Differences, GradientsAreNotJudgedByThem) {
  EXPECT_THAT(problems_of(job("sync", {{"name", "powersgd"}})), IsEmpty());
  EXPECT_THAT(problems_of(job("sync", {{"name", "dgc"}, {"memory", "dgc"}})), IsEmpty());
  EXPECT_THAT(problems_of(job("sync", {{"name", "topk"}, {"memory_params", {{"momentum", 0.5}}}})), IsEmpty());
}

TEST(Pushes, AreNotForAllCompressorsAndMemories) {
  const std::string of_mode = "does not fit training mode \"served\", whose workers push gradients to servers: ";
  EXPECT_THAT(
      problems_of(job("served", {{"name", "powersgd"}, {"memory", "none"}})),
      ElementsAre(Problem{"/compression/name", "compressor \"powersgd\" " + of_mode + "it takes several passes"}));
  EXPECT_THAT(problems_of(job("served", {{"name", "topk"}, {"memory", "residual"}})),
              ElementsAre(Problem{"/compression/memory", "memory \"residual\" " + of_mode + "it needs the mean"}));
  EXPECT_THAT(problems_of(job("served", {{"name", "dgc"}, {"memory", "dgc"}})), IsEmpty());
}

TEST(Differences, OfAnUnknownModeNothingIsSaid) {
  const auto problems = problems_of(job("lokal", {{"name", "powersgd"}}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].pointer, "/training/mode");
}

}  // namespace
}  // namespace weir::protocol
