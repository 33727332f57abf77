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

json integer(int standard) { return {{"type", "integer"}, {"minimum", 0}, {"default", standard}}; }

/// With a mode whose workers exchange with neighbours, one that exchanges parts of the model, and one that does without
/// the gradients of some workers.
json catalog() {
  json catalog = test_catalog();
  json neighbours = catalog["modes"][0];
  neighbours["name"] = "neighbours";
  neighbours["exchanges"] = "models";
  neighbours["topologies"] = {"ring"};
  neighbours["params"]["properties"] = {{"graph", {{"type", "string"}, {"default", "ring"}}}, {"degree", integer(4)}};
  json parts = catalog["modes"][0];
  parts["name"] = "parts";
  parts["params"]["properties"] = {{"period", integer(100)}, {"fragments", integer(1)}, {"delay", integer(0)}};
  parts["params"]["properties"]["fragments"]["atMost"] = "period";
  json backup = catalog["modes"][0];
  backup["name"] = "backup";
  backup["params"]["properties"] = {{"backup_workers", integer(1)}};
  catalog["modes"].push_back(neighbours);
  catalog["modes"].push_back(parts);
  catalog["modes"].push_back(backup);
  for (json& compressor : catalog["compressors"]) {
    if (compressor["name"] == "powersgd") compressor["neighbours_misfit"] = "it takes several passes";
  }
  return catalog;
}

json job(const char* mode, json params, json compression = {{"name", "topk"}}) {
  return {{"model", {{"name", "lenet"}}},
          {"dataset", {{"name", "fashion-mnist"}}},
          {"training", {{"mode", mode}, {"params", std::move(params)}}},
          {"compression", std::move(compression)},
          {"resources", {{"workers", 5}}}};
}

std::vector<std::string> pointers_of(json spec) {
  std::vector<std::string> pointers;
  for (const auto& problem : normalize_job_spec(spec, catalog())) pointers.push_back(problem.pointer);
  return pointers;
}

TEST(Neighbours, HaveNoMemory) {
  json spec = job("neighbours", json::object());
  EXPECT_THAT(normalize_job_spec(spec, catalog()), IsEmpty());
  EXPECT_EQ(spec["compression"]["memory"], "none");
  spec = job("neighbours", json::object(), {{"name", "topk"}, {"memory", "residual"}});
  const auto problems = normalize_job_spec(spec, catalog());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].pointer, "/compression/memory");
  EXPECT_THAT(problems[0].message, HasSubstr("it takes [\"none\"]"));
}

TEST(Neighbours, AreNotForAllCompressorsAndTopologies) {
  json spec = job("neighbours", json::object(), {{"name", "powersgd"}});
  const auto problems = normalize_job_spec(spec, catalog());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].pointer, "/compression/name");
  EXPECT_THAT(problems[0].message, HasSubstr("it takes several passes"));
  spec = job("neighbours", json::object());
  spec["exchange"] = {{"topology", "butterfly"}};
  EXPECT_THAT(pointers_of(spec), ::testing::Contains("/exchange/topology"));
}

TEST(Neighbours, MixParametersWithTheWeightsOfTheirGraph) {
  const auto problem_of = [](json compression) {
    json spec = job("neighbours", json::object(), std::move(compression));
    const auto problems = normalize_job_spec(spec, catalog());
    EXPECT_EQ(problems.size(), 1U);
    return problems.empty() ? Problem{} : problems[0];
  };
  for (const char* other : {"sum", "min", "max", "weighted"}) {
    const auto problem = problem_of({{"name", "none"}, {"aggregation", other}});
    EXPECT_EQ(problem.pointer, "/compression/aggregation");
    EXPECT_THAT(problem.message, HasSubstr("with the weights of their graph; it takes \"mean\""));
  }
  const auto models = problem_of({{"name", "topk"}, {"apply_to", "models"}});
  EXPECT_EQ(models.pointer, "/compression/apply_to");
  EXPECT_THAT(models.message, HasSubstr("stay each worker's own; it takes [\"gradients\"]"));
  EXPECT_THAT(pointers_of(job("neighbours", json::object(), {{"name", "topk"}, {"aggregation", "mean"}})), IsEmpty());
}

/// A catalog whose first mode exchanges that.
json exchanging(const char* what) {
  json made = catalog();
  made["modes"][0]["exchanges"] = what;
  return made;
}

json of_first_mode(json compression = {{"name", "none"}}) {
  return job(test_catalog()["modes"][0]["name"].get<std::string>().c_str(), json::object(), std::move(compression));
}

TEST(SettingsWithoutEffect, AreRefusedWhereThereIsOneWorker) {
  json spec = of_first_mode({{"name", "none"}, {"apply_to", "models"}, {"aggregation", "sum"}});
  spec["exchange"] = {{"bucket_bytes", 4096}};
  spec["resources"] = {{"workers", 1}};
  const auto problems = normalize_job_spec(spec, exchanging("nothing"));
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0].pointer, "/compression/apply_to");
  EXPECT_THAT(problems[0].message,
              HasSubstr("has one worker, whose values are used as they are; it takes \"gradients\""));
  EXPECT_EQ(problems[1].pointer, "/compression/aggregation");
  EXPECT_EQ(problems[2].pointer, "/exchange/bucket_bytes");
  EXPECT_THAT(problems[2].message, HasSubstr("exchanges nothing, not in buckets: leave it out"));
  spec = of_first_mode();
  spec["resources"] = {{"workers", 1}};
  EXPECT_THAT(normalize_job_spec(spec, exchanging("nothing")), IsEmpty());
  EXPECT_EQ(spec["training"]["clip"]["where"], "global");
}

TEST(SettingsWithoutEffect, ServersGetEachTensorByItself) {
  json spec = of_first_mode();
  spec["exchange"] = {{"bucket_bytes", 4096}};
  const auto problems = normalize_job_spec(spec, exchanging("pushes"));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].pointer, "/exchange/bucket_bytes");
  EXPECT_THAT(problems[0].message, HasSubstr("push each tensor by itself"));
  EXPECT_THAT(normalize_job_spec(spec = of_first_mode(), exchanging("pushes")), IsEmpty());
}

TEST(SettingsWithoutEffect, UncompressedModelsAreMixedAsAWhole) {
  json plain = catalog();
  plain["compressors"][0]["traits"]["lossless"] = true;
  for (const char* compressor : {"none", "topk"}) {
    json spec = job("neighbours", json::object(), {{"name", compressor}});
    EXPECT_THAT(normalize_job_spec(spec, plain), IsEmpty());
    spec = job("neighbours", json::object(), {{"name", compressor}});
    spec["exchange"] = {{"bucket_bytes", 4096}};
    const auto problems = normalize_job_spec(spec, plain);
    ASSERT_EQ(problems.size(), compressor == std::string("none") ? 1U : 0U);
    if (problems.empty()) continue;
    EXPECT_EQ(problems[0].pointer, "/exchange/bucket_bytes");
    EXPECT_THAT(problems[0].message, HasSubstr("mixes uncompressed models as a whole"));
  }
}

TEST(SettingsWithoutEffect, ALearningRateBesideOneInItsPlace) {
  json with_own = catalog();
  with_own["modes"][0]["params"]["properties"]["local_lr"] = {{"type", {"number", "null"}}, {"default", nullptr}};
  const auto with = [&](const json& local, const json& optimizer) {
    json spec = job("sync", {{"local_lr", local}});
    spec["training"]["optimizer"] = optimizer;
    return normalize_job_spec(spec, with_own);
  };
  EXPECT_THAT(with(0.1, {{"momentum", 0}}), IsEmpty());
  EXPECT_THAT(with(0.1, {{"lr", 0.05}}), IsEmpty()) << "its default, as in a normalized spec";
  EXPECT_THAT(with(nullptr, {{"lr", 0.2}}), IsEmpty());
  const auto problems = with(0.1, {{"lr", 0.2}});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].pointer, "/training/optimizer/lr");
  EXPECT_THAT(problems[0].message, HasSubstr("/training/params/local_lr takes its place"));
}

TEST(SettingsWithoutEffect, AMomentumBesideOneInItsPlace) {
  json with_own = catalog();
  for (json& compressor : with_own["compressors"]) {
    compressor["traits"]["owns_momentum"] = compressor["name"] == "powersgd";
  }
  with_own["optimizers"][0]["params"]["properties"]["nesterov"] = {{"type", "boolean"}, {"default", false}};
  const auto with = [&](const char* compressor, const json& optimizer) {
    json spec = job("sync", json::object(), {{"name", compressor}});
    spec["training"]["optimizer"] = optimizer;
    return normalize_job_spec(spec, with_own);
  };
  EXPECT_THAT(with("powersgd", {{"lr", 0.1}}), IsEmpty());
  EXPECT_THAT(with("powersgd", {{"momentum", 0.9}, {"nesterov", false}}), IsEmpty()) << "the defaults";
  EXPECT_THAT(with("powersgd", {{"momentum", 0}}), IsEmpty()) << "that is what it has";
  EXPECT_THAT(with("topk", {{"momentum", 0.5}, {"nesterov", true}}), IsEmpty());
  const auto problems = with("powersgd", {{"momentum", 0.5}, {"nesterov", true}});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].pointer, "/training/optimizer/momentum");
  EXPECT_EQ(problems[0].message,
            "has no effect here: compressor \"powersgd\" has a momentum in place of the optimizer's; leave it out");
  EXPECT_EQ(problems[1].pointer, "/training/optimizer/nesterov");
}

TEST(Clip, IsGlobalWhereThereIsAMeanOfGradients) {
  for (const char* what : {"gradients", "differences", "models", "pushes"}) {
    const bool has_mean = what == std::string("gradients");
    json spec = of_first_mode();
    spec["training"]["clip"] = {{"norm", 1}};
    EXPECT_THAT(normalize_job_spec(spec, exchanging(what)), IsEmpty()) << what;
    EXPECT_EQ(spec["training"]["clip"]["where"], has_mean ? "global" : "local") << what;
    EXPECT_EQ(parse_job_spec(spec).value().training.clip.local, !has_mean) << what;
    spec = of_first_mode();
    spec["training"]["clip"] = {{"value", 1}, {"where", "global"}};
    const auto problems = normalize_job_spec(spec, exchanging(what));
    ASSERT_EQ(problems.size(), has_mean ? 0U : 1U) << what;
    if (has_mean) continue;
    EXPECT_EQ(problems[0].pointer, "/training/clip/where");
    EXPECT_THAT(problems[0].message, HasSubstr("it takes \"local\"")) << what;
  }
  json models = of_first_mode({{"name", "none"}, {"apply_to", "models"}});
  models["training"]["clip"] = {{"norm", 1}, {"where", "global"}};
  EXPECT_THAT(pointers_of(models), ElementsAre("/training/clip/where"));
}

/// With a norm of momentum, or of signs, a limit for gradients makes steps many times smaller, or ends the learning.
TEST(Clip, IsLocalWhereTheWorkersAgreeOnMomentumOrSigns) {
  json all = catalog();
  for (json& memory : all["memories"]) {
    if (memory["name"] == "dgc") memory["owns_momentum"] = true;
  }
  json signs = all["compressors"][0];
  signs["name"] = "signs";
  signs["traits"]["votes"] = true;
  json momentum = all["compressors"][0];
  momentum["name"] = "momentum";
  momentum["traits"]["owns_momentum"] = true;
  all["compressors"].push_back(signs);
  all["compressors"].push_back(momentum);
  for (const auto& [compressor, reason] :
       {std::pair("dgc", "memory \"dgc\" adds up gradients"), std::pair("signs", "agree on signs"),
        std::pair("momentum", "compressor \"momentum\" adds up gradients")}) {
    json spec = job("sync", json::object(), {{"name", compressor}});
    spec["training"]["clip"] = {{"norm", 1}};
    EXPECT_THAT(normalize_job_spec(spec, all), IsEmpty()) << compressor;
    EXPECT_EQ(spec["training"]["clip"]["where"], "local") << compressor;
    spec["training"]["clip"]["where"] = "global";
    const auto problems = normalize_job_spec(spec, all);
    ASSERT_EQ(problems.size(), 1U) << compressor;
    EXPECT_EQ(problems[0].pointer, "/training/clip/where");
    EXPECT_THAT(problems[0].message, HasSubstr(reason));
  }
  json spec = job("sync", json::object(), {{"name", "topk"}});
  ASSERT_THAT(normalize_job_spec(spec, all), IsEmpty());
  EXPECT_EQ(spec["training"]["clip"]["where"], "global");
}

TEST(ModeParams, ThereIsAGraphOfThatDegree) {
  const auto with = [](int degree, int workers) {
    json spec = job("neighbours", {{"graph", "random_regular"}, {"degree", degree}});
    spec["resources"]["workers"] = workers;
    return pointers_of(spec);
  };
  const std::string degree = "/training/params/degree";
  EXPECT_THAT(with(4, 5), IsEmpty());
  EXPECT_THAT(with(5, 5), ElementsAre(degree)) << "more than there are others";
  EXPECT_THAT(with(3, 5), ElementsAre(degree)) << "both odd";
  EXPECT_THAT(with(1, 4), ElementsAre(degree)) << "not connected";
  EXPECT_THAT(with(1, 2), IsEmpty());
  EXPECT_THAT(pointers_of(job("neighbours", {{"graph", "ring"}, {"degree", 17}})), IsEmpty()) << "not used";
}

TEST(ModeParams, BackupWorkersLeaveAGradientForAStep) {
  const auto with = [](const json& params, int workers) {
    json spec = job("backup", params);
    spec["resources"]["workers"] = workers;
    return normalize_job_spec(spec, catalog());
  };
  EXPECT_THAT(with({{"backup_workers", 4}}, 5), IsEmpty());
  EXPECT_THAT(with({{"backup_workers", 0}}, 1), IsEmpty());
  const auto all = with({{"backup_workers", 5}}, 5);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].pointer, "/training/params/backup_workers");
  EXPECT_THAT(all[0].message, HasSubstr("must be less than /resources/workers, which is 5"));
  const auto usual = with(json::object(), 1);
  ASSERT_EQ(usual.size(), 1U) << "the default is too much for one worker";
  EXPECT_EQ(usual[0].pointer, "/training/params/backup_workers");
}

TEST(ModeParams, CompressionIsAdaptedWhereTheCompressorSendsSoManyEntries) {
  json with_flag = catalog();
  with_flag["modes"][0]["params"]["properties"]["adapt_compression"] = {{"type", "boolean"}, {"default", false}};
  for (json& compressor : with_flag["compressors"]) {
    if (compressor["name"] == "topk") compressor["traits"]["thins"] = true;
  }
  const auto problems = [&](bool adapts, const char* compressor) {
    json spec = job("sync", {{"adapt_compression", adapts}}, {{"name", compressor}});
    return normalize_job_spec(spec, with_flag);
  };
  EXPECT_THAT(problems(true, "topk"), IsEmpty());
  EXPECT_THAT(problems(false, "powersgd"), IsEmpty());
  const auto refused = problems(true, "powersgd");
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].pointer, "/training/params/adapt_compression");
  EXPECT_THAT(refused[0].message, HasSubstr("it takes [\"topk\"]"));
}

TEST(ModeParams, CompressionIsNotAdaptedToLinksThatAreNotUsed) {
  json devices = catalog();
  devices["modes"][0]["params"]["properties"]["adapt_compression"] = {{"type", "boolean"}, {"default", false}};
  devices["modes"][0].erase("topologies");
  devices["topologies"][2]["on_devices"] = true;
  for (json& compressor : devices["compressors"]) compressor["traits"]["thins"] = true;
  for (const bool adapts : {true, false}) {
    json spec = job("sync", {{"adapt_compression", adapts}});
    spec["exchange"] = {{"topology", devices["topologies"][2]["name"]}};
    spec["resources"]["per_worker"] = {{"gpu", 1}};
    const auto problems = normalize_job_spec(spec, devices);
    ASSERT_EQ(problems.size(), adapts ? 1U : 0U);
    if (!adapts) continue;
    EXPECT_EQ(problems[0].pointer, "/training/params/adapt_compression");
    EXPECT_THAT(problems[0].message, HasSubstr("gradients do not take them; leave it out"));
  }
}

TEST(ModeParams, PartsAndDelaysFitThePeriod) {
  const auto with = [](int period, int fragments, int delay) {
    return pointers_of(job("parts", {{"period", period}, {"fragments", fragments}, {"delay", delay}}));
  };
  EXPECT_THAT(with(9, 2, 3), IsEmpty());
  EXPECT_THAT(with(9, 2, 4), ElementsAre("/training/params/delay"));
  EXPECT_THAT(with(4, 5, 0), ElementsAre("/training/params/fragments"));
  EXPECT_THAT(with(4, 4, 0), IsEmpty());
}

}  // namespace
}  // namespace weir::protocol
