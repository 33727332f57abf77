#include "protocol/job_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "tests/protocol/test_catalog.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

auto at(const char* pointer) { return Contains(Field(&Problem::pointer, pointer)); }

json minimal() { return json::parse(R"({"model": {"name": "lenet"}, "dataset": {"name": "fashion-mnist"}})"); }

std::vector<Problem> problems_of(json spec) { return normalize_job_spec(spec, test_catalog()); }

TEST(JobSpec, TwoNamesAreEnough) {
  json spec = minimal();
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(spec["name"], "lenet-none");
  EXPECT_EQ(spec["training"]["optimizer"], json::parse(R"({"name":"sgd","lr":0.05,"momentum":0.9})"));
  EXPECT_EQ(spec["compression"]["memory"], "none");
  const auto typed = parse_job_spec(spec);
  ASSERT_TRUE(typed) << typed.error().message();
  EXPECT_EQ(typed->resources.workers, 1u);
  EXPECT_EQ(typed->resources.per_worker, (Resources{{"cpu", 1}}));
  EXPECT_EQ(typed->training.optimizer.params, json::parse(R"({"lr":0.05,"momentum":0.9})"));
  EXPECT_EQ(typed->restarts_max, 3u);
}

TEST(JobSpec, NormalizingTwiceChangesNothing) {
  json spec = minimal();
  spec["compression"] = {{"name", "dgc"}};
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(spec["compression"]["memory"], "dgc");
  EXPECT_EQ(spec["compression"]["params"]["ratio"], 0.001);
  json again = spec;
  ASSERT_THAT(normalize_job_spec(again, test_catalog()), IsEmpty());
  EXPECT_EQ(again, spec);
}

TEST(JobSpec, AProblemWithTheSchemaHidesNoneWithTheCatalog) {
  json spec = minimal();
  spec["model"]["name"] = "lenett";
  spec["training"] = {{"epoch", 1}, {"batch_size", "many"}};
  const auto problems = problems_of(spec);
  EXPECT_THAT(problems, at("/training/epoch"));
  EXPECT_THAT(problems, at("/training/batch_size"));
  EXPECT_THAT(problems, at("/model/name"));
  EXPECT_EQ(problems.size(), 3u);
}

TEST(JobSpec, NamesMustBeInTheCatalog) {
  json spec = minimal();
  spec["model"]["name"] = "lenett";
  const auto problems = problems_of(spec);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0], (Problem{"/model/name", "there is no model \"lenett\"; did you mean \"lenet\"?", "lenet"}));
  spec = minimal();
  spec["training"] = {{"mode", "async"}, {"optimizer", {{"name", "lion"}}}};
  spec["exchange"] = {{"topology", "mesh"}};
  EXPECT_THAT(problems_of(spec), at("/training/mode"));
  EXPECT_THAT(problems_of(spec), at("/training/optimizer/name"));
  EXPECT_THAT(problems_of(spec), at("/exchange/topology"));
}

TEST(JobSpec, ATopologyFitsTheModeAndTheNumberOfWorkers) {
  json spec = minimal();
  spec["exchange"] = {{"topology", "star"}};
  EXPECT_THAT(problems_of(spec),
              ElementsAre(Problem{
                  "/exchange/topology",
                  R"(training mode "sync" does not work over "star"; it takes ["ring","butterfly","servers","auto"])",
                  {}}));
  spec["exchange"] = {{"topology", "butterfly"}};
  for (const int workers : {1, 2, 8, 1024}) {
    spec["resources"] = {{"workers", workers}};
    EXPECT_THAT(problems_of(spec), IsEmpty()) << workers;
  }
  for (const int workers : {3, 1023}) {
    spec["resources"] = {{"workers", workers}};
    const std::string expected = "\"butterfly\" works for 1, 2, 4, 8, ... workers, and the job has " +
                                 std::to_string(workers) + "; for any number: ring, servers, auto";
    EXPECT_THAT(problems_of(spec), ElementsAre(Problem{"/exchange/topology", expected, {}}));
  }
}

TEST(JobSpec, AStepTakesAsManyBatchesAsTheModeAccumulates) {
  json spec = minimal();
  spec["training"] = {{"batch_size", 16}};
  json given = spec;
  ASSERT_THAT(normalize_job_spec(given, test_catalog()), IsEmpty());
  EXPECT_EQ(given["training"]["params"], json::parse(R"({"accumulate": 1})"));
  EXPECT_EQ(parse_job_spec(given).value().training.samples_per_step(), 16U);
  given = spec;
  given["training"]["params"] = {{"accumulate", 4}};
  ASSERT_THAT(normalize_job_spec(given, test_catalog()), IsEmpty());
  const auto training = parse_job_spec(given).value().training;
  EXPECT_EQ(training.accumulate, 4U);
  EXPECT_EQ(training.samples_per_step(), 64U);
  given["training"]["params"] = json::object();
  EXPECT_EQ(parse_job_spec(given).value().training.accumulate, 1U) << "a mode that accumulates nothing";
  for (const json& bad : {json(0), json(-1), json(1.5), json("2"), json(65537)}) {
    spec["training"]["params"] = {{"accumulate", bad}};
    EXPECT_THAT(problems_of(spec), at("/training/params/accumulate")) << bad;
  }
}

std::uint32_t servers_in(json spec) {
  EXPECT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  return parse_job_spec(spec).value().exchange.servers;
}

TEST(JobSpec, ServersAreAmongTheWorkers) {
  json spec = minimal();
  spec["resources"] = {{"workers", 4}};
  spec["exchange"] = {{"topology", "servers"}};
  EXPECT_EQ(servers_in(spec), 0U) << "one on each worker";
  spec["exchange"]["params"] = {{"servers", 4}};
  EXPECT_EQ(servers_in(spec), 4U);
  spec["exchange"]["params"] = {{"servers", 5}};
  EXPECT_THAT(problems_of(spec), at("/exchange/params/servers"));
  spec["exchange"]["params"] = {{"servers", 0}};
  EXPECT_THAT(problems_of(spec), at("/exchange/params/servers"));
  spec["exchange"] = {{"topology", "ring"}, {"params", {{"servers", 1}}}};
  EXPECT_THAT(problems_of(spec), at("/exchange/params/servers"));
}

TEST(JobSpec, OwnersEncodeTheMeanAgain) {
  json spec = minimal();
  spec["exchange"] = {{"topology", "servers"}};
  spec["compression"] = {{"name", "topk"}};
  EXPECT_THAT(problems_of(spec), IsEmpty());
  spec["compression"] = {{"name", "powersgd"}};
  const std::string reason = "\"servers\" does not fit compressor \"powersgd\": it keeps what was sent before";
  EXPECT_THAT(problems_of(spec), ElementsAre(Problem{"/exchange/topology", reason, {}}));
  spec["compression"]["params"] = {{"start_step", 3}};
  EXPECT_THAT(problems_of(spec), at("/exchange/topology"));
}

TEST(JobSpec, WhatACompressorFitsIsJudgedAtTheJobsParameters) {
  json catalog = test_catalog();
  json& powersgd = catalog["compressors"].back();
  powersgd["params"]["properties"]["warm_start"] = {{"type", "boolean"}, {"default", true}};
  powersgd["variants"] = {
      {{"params", {{"warm_start", true}}}, {"owners_misfit", "it starts warm"}, {"memory_misfits", json::object()}},
      {{"params", {{"warm_start", false}}}, {"memory_misfits", {{"none", "it needs one"}}}}};
  json spec = minimal();
  spec["exchange"] = {{"topology", "servers"}};
  spec["compression"] = {{"name", "powersgd"}, {"memory", "residual"}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), at("/exchange/topology"));
  spec["compression"]["params"] = {{"warm_start", false}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), IsEmpty());
  spec["compression"]["memory"] = "none";
  EXPECT_THAT(normalize_job_spec(spec, catalog), at("/compression/memory"));
  spec["compression"]["params"] = {{"warm_start", false}, {"start_step", 3}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), at("/compression/memory")) << "whatever the numbers";
  json& by_size = powersgd["variants"][1];
  by_size["params"]["start_step"] = {{"minimum", 10}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), at("/exchange/topology")) << "as usual, with less than that";
  spec["compression"]["params"]["start_step"] = 10;
  EXPECT_THAT(normalize_job_spec(spec, catalog), at("/compression/memory"));
}

TEST(JobSpec, TheTopologyMayBeLeftToTheWorkers) {
  json spec = minimal();
  spec["exchange"] = {{"topology", "auto"}};
  for (const char* compressor : {"none", "topk", "dgc", "powersgd"}) {
    for (const int workers : {1, 3, 1024}) {
      spec["compression"] = {{"name", compressor}};
      spec["resources"] = {{"workers", workers}};
      EXPECT_THAT(problems_of(spec), IsEmpty()) << compressor << " on " << workers;
    }
  }
  spec["exchange"]["params"] = {{"servers", 1}};
  EXPECT_THAT(problems_of(spec), at("/exchange/params/servers"));
  const json& exchange = job_spec_schema()["properties"]["exchange"]["properties"];
  EXPECT_THAT(exchange["bucket_bytes"]["description"].get<std::string>(),
              HasSubstr("with topology auto, the size to begin with"));
  EXPECT_THAT(exchange["topology"]["description"].get<std::string>(), HasSubstr("auto: the workers measure"));
}

TEST(JobSpec, ATopologyBetweenGpusNeedsAWholeOneForEachWorker) {
  json catalog = test_catalog();
  catalog["modes"][0]["topologies"].push_back("gpus");
  catalog["topologies"].push_back({{"name", "gpus"}, {"summary", ""}, {"workers", "any"}, {"on_devices", true}});
  const auto problems_with = [&](const json& each) {
    json spec = minimal();
    spec["exchange"] = {{"topology", "gpus"}};
    spec["resources"] = {{"workers", 2}, {"per_worker", each}};
    return normalize_job_spec(spec, catalog);
  };
  EXPECT_THAT(problems_with({{"cpu", 1}, {"gpu", 1}}), IsEmpty());
  EXPECT_THAT(problems_with({{"gpu", 2}}), IsEmpty());
  const std::string between = "\"gpus\" works between GPUs, one for each worker, and a worker of the job has ";
  const std::string advice = ": set resources.per_worker.gpu to 1";
  EXPECT_THAT(problems_with({{"cpu", 1}}), ElementsAre(Problem{"/exchange/topology", between + "none" + advice, {}}));
  EXPECT_THAT(problems_with({{"gpu", 0.5}}),
              ElementsAre(Problem{"/exchange/topology", between + "a part of one" + advice, {}}));
}

TEST(JobSpec, OwnersOfRegionsTakeWhatACompressorHasChosen) {
  json catalog = test_catalog();
  catalog["modes"][0]["topologies"].push_back("regions");
  catalog["topologies"].push_back({{"name", "regions"}, {"summary", ""}, {"workers", "any"}, {"gathers", "regions"}});
  for (auto& compressor : catalog["compressors"]) {
    if (compressor["name"] == "powersgd") compressor["regions_misfit"] = "it chooses no entries";
    if (compressor["name"] == "topk") compressor["owners_misfit"] = "it chooses entries";  // which is not asked here
  }
  json spec = minimal();
  spec["exchange"] = {{"topology", "regions"}};
  spec["compression"] = {{"name", "topk"}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), IsEmpty());
  spec = minimal();
  spec["exchange"] = {{"topology", "regions"}};
  spec["compression"] = {{"name", "powersgd"}};
  const auto problems = normalize_job_spec(spec, catalog);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].pointer, "/exchange/topology");
  EXPECT_EQ(problems[0].message, "\"regions\" does not fit compressor \"powersgd\": it chooses no entries");
}

TEST(JobSpec, PartnersEncodeSumsIfTheErrorOfTheCompressorIsBounded) {
  json catalog = test_catalog();
  catalog["modes"][0]["topologies"].push_back("hops");
  catalog["topologies"].push_back(
      {{"name", "hops"}, {"summary", ""}, {"workers", "power_of_two"}, {"gathers", "partners"}});
  for (auto& compressor : catalog["compressors"]) {
    if (compressor["name"] == "topk") compressor["partners_misfit"] = "it sends some entries";
    if (compressor["name"] != "powersgd") continue;
    compressor["partners_misfit"] = "its error is too large";
    compressor["variants"] = {{{"params", {{"start_step", {{"maximum", 9}}}}}, {"memory_misfits", json::object()}}};
  }
  const auto problems_with = [&](const json& compression, int workers) {
    json spec = minimal();
    spec["exchange"] = {{"topology", "hops"}};
    spec["compression"] = compression;
    spec["resources"] = {{"workers", workers}};
    return normalize_job_spec(spec, catalog);
  };
  EXPECT_THAT(problems_with({{"name", "none"}}, 4), IsEmpty());
  EXPECT_THAT(problems_with({{"name", "none"}}, 6), at("/exchange/topology"));
  const auto sparse = problems_with({{"name", "topk"}, {"params", {{"ratio", 0.5}}}}, 4);
  ASSERT_EQ(sparse.size(), 1u);
  EXPECT_EQ(sparse[0].pointer, "/exchange/topology");
  EXPECT_THAT(sparse[0].message, HasSubstr("does not fit compressor \"topk\": it sends some entries"));
  const auto inexact = problems_with({{"name", "powersgd"}}, 4);
  ASSERT_EQ(inexact.size(), 1u);
  EXPECT_THAT(inexact[0].message, HasSubstr("its error is too large"));
  EXPECT_THAT(problems_with({{"name", "powersgd"}, {"params", {{"start_step", 3}}}}, 4), IsEmpty())
      << "how large it is depends on a number";
  EXPECT_THAT(problems_with({{"name", "powersgd"}, {"params", {{"start_step", 30}}}}, 4), at("/exchange/topology"));
}

TEST(JobSpec, ParametersFollowTheirCatalogEntry) {
  json spec = minimal();
  spec["compression"] = {{"name", "topk"}, {"params", {{"ratio", 0}}}};
  spec["training"] = {{"optimizer", {{"name", "sgd"}, {"rl", 0.1}}}};
  EXPECT_THAT(problems_of(spec), at("/compression/params/ratio"));
  EXPECT_THAT(problems_of(spec), at("/training/optimizer/rl"));
}

TEST(JobSpec, WhatNothingWouldReadIsRefused) {
  json spec = minimal();
  spec["exchange"] = {{"topology", "rings"}, {"transport", "rdma"}};
  spec["compression"] = {{"name", "none"}, {"apply_to", "weights"}};
  spec["resources"] = {{"labels", {{"zone", 1}}}, {"label", {{"zone", "a"}}}};
  const auto problems = problems_of(spec);
  EXPECT_THAT(problems, at("/exchange/transport"));
  EXPECT_THAT(problems, at("/compression/apply_to"));
  EXPECT_THAT(problems, at("/resources/labels/zone"));
  const Problem label{"/resources/label", "is not a known field; did you mean \"labels\"?", "labels"};
  EXPECT_THAT(problems, Contains(label));
  EXPECT_THAT(problems, Contains(Problem{"/exchange/topology", "there is no topology \"rings\"; did you mean \"ring\"?",
                                         "ring"}));
}

TEST(JobSpec, AnOptimizerWithMomentsNeedsTheMomentumForItself) {
  json catalog = test_catalog();
  catalog["optimizers"].push_back({{"name", "adam"}, {"summary", ""}, {"yields_momentum", false}});
  for (auto& memory : catalog["memories"]) memory["owns_momentum"] = memory["name"] == "dgc";
  for (auto& compressor : catalog["compressors"]) {
    compressor["traits"]["owns_momentum"] = compressor["name"] == "powersgd";
  }
  const auto problems_with = [&](const char* optimizer, const char* compressor, const json& params = json::object()) {
    json spec = minimal();
    spec["training"] = {{"optimizer", {{"name", optimizer}}}};
    spec["compression"] = {{"name", compressor}, {"params", params}};
    return normalize_job_spec(spec, catalog);
  };
  for (const char* compressor : {"none", "topk"}) EXPECT_THAT(problems_with("adam", compressor), IsEmpty());
  for (const char* compressor : {"dgc", "powersgd"}) EXPECT_THAT(problems_with("sgd", compressor), IsEmpty());
  EXPECT_THAT(problems_with("adam", "dgc"),
              ElementsAre(Problem{"/training/optimizer/name",
                                  "optimizer \"adam\" keeps moments of its own, and memory \"dgc\" applies the "
                                  "optimizer's momentum before compression; use \"sgd\", or a compression without "
                                  "momentum"}));
  for (const json& params : {json::object(), json{{"start_step", 3}}}) {  // whatever its numbers are
    const auto problems = problems_with("adam", "powersgd", params);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_THAT(problems[0].message, HasSubstr("compressor \"powersgd\" has a momentum in place of the optimizer's"));
  }
}

/// As with EF21, whose memory has a momentum if its parameter says so.
TEST(JobSpec, AnOptimizerWithMomentsTakesNoMomentumOfTheMemory) {
  json catalog = test_catalog();
  catalog["optimizers"].push_back({{"name", "adam"}, {"summary", ""}, {"yields_momentum", false}});
  const json params = json::parse(R"({"type": "object", "additionalProperties": false, "properties": {
      "momentum": {"type": "number", "minimum": 0, "maximum": 0.9999, "default": 0}}})");
  catalog["memories"].push_back(
      {{"name", "ef21"}, {"summary", ""}, {"params", params}, {"momentum_params", {"momentum"}}});
  const auto problems_with = [&](const char* optimizer, const json& memory_params) {
    json spec = minimal();
    spec["training"] = {{"optimizer", {{"name", optimizer}}}};
    spec["compression"] = {{"name", "topk"}, {"memory", "ef21"}, {"memory_params", memory_params}};
    return normalize_job_spec(spec, catalog);
  };
  EXPECT_THAT(problems_with("sgd", {{"momentum", 0.9}}), IsEmpty());
  EXPECT_THAT(problems_with("adam", json::object()), IsEmpty());
  EXPECT_THAT(problems_with("adam", {{"momentum", 0}}), IsEmpty());
  EXPECT_THAT(problems_with("adam", {{"momentum", 0.9}}),
              ElementsAre(Problem{"/training/optimizer/name",
                                  "optimizer \"adam\" keeps moments of its own, and memory \"ef21\" has a momentum in "
                                  "place of the optimizer's, unless \"momentum\" among its parameters is left out; use "
                                  "\"sgd\", or a compression without momentum"}));
}

TEST(JobSpec, NesterovNeedsMomentum) {
  json catalog = test_catalog();
  catalog["optimizers"][0]["params"]["properties"]["nesterov"] = {{"type", "boolean"}, {"default", false}};
  const auto problems_with = [&](const json& optimizer) {
    json spec = minimal();
    spec["training"] = {{"optimizer", optimizer}};
    return normalize_job_spec(spec, catalog);
  };
  EXPECT_THAT(problems_with({{"nesterov", true}}), IsEmpty());
  EXPECT_THAT(problems_with({{"momentum", 0}}), IsEmpty());
  EXPECT_THAT(problems_with({{"nesterov", true}, {"momentum", 0.0}}),
              ElementsAre(Problem{"/training/optimizer/nesterov",
                                  "Nesterov's momentum needs /training/optimizer/momentum above 0"}));
}

TEST(JobSpec, ADatasetWithoutFilesTakesNoPath) {
  json catalog = test_catalog();
  catalog["datasets"].push_back({{"name", "synthetic"}, {"summary", ""}, {"has_files", false}});
  json spec = minimal();
  spec["dataset"] = {{"name", "synthetic"}, {"path", "/data"}};
  EXPECT_THAT(normalize_job_spec(spec, catalog),
              ElementsAre(Problem{"/dataset/path", "dataset \"synthetic\" has no files: leave the path out"}));
  spec = minimal();
  spec["dataset"] = {{"name", "synthetic"}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), IsEmpty());
}

TEST(JobSpec, ADatasetWithoutAUsualPlaceNeedsAPath) {
  const json catalog = test_catalog();
  json spec = minimal();
  spec["dataset"] = {{"name", "cifar10"}};
  EXPECT_THAT(normalize_job_spec(spec, catalog),
              ElementsAre(Problem{"/dataset/path",
                                  "dataset \"cifar10\" has no usual place: say where it is on the workers' hosts"}));
  spec = minimal();
  spec["dataset"] = {{"name", "cifar10"}, {"path", "/data"}};
  EXPECT_THAT(normalize_job_spec(spec, catalog), IsEmpty());
}

TEST(JobSpec, LimitsOfGradientsAndTheMixtureOfClassesAreRead) {
  json spec = minimal();
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(spec["training"]["clip"], json::parse(R"({"norm":null,"value":null,"where":"global"})"));
  EXPECT_EQ(spec["dataset"]["dirichlet_alpha"], 0.5);
  auto typed = parse_job_spec(spec).value();
  EXPECT_FALSE(typed.training.clip.norm || typed.training.clip.value || typed.training.clip.local);
  spec["training"].erase("clip");  // as in specs that were stored before there was one
  spec["dataset"].erase("dirichlet_alpha");
  EXPECT_EQ(parse_job_spec(spec).value().dataset.dirichlet_alpha, 0.5);

  spec = minimal();
  spec["training"] = {{"clip", {{"norm", 2}, {"value", 0.5}, {"where", "local"}}}};
  spec["dataset"].update({{"partition", "dirichlet"}, {"dirichlet_alpha", 0.1}});
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  typed = parse_job_spec(spec).value();
  EXPECT_EQ(typed.training.clip.norm, 2);
  EXPECT_EQ(typed.training.clip.value, 0.5);
  EXPECT_TRUE(typed.training.clip.local);
  EXPECT_EQ(typed.dataset.dirichlet_alpha, 0.1);
  spec = minimal();
  spec["training"] = {{"clip", {{"norm", 0}, {"where", "everywhere"}}}};
  EXPECT_THAT(problems_of(spec), at("/training/clip/norm"));
  EXPECT_THAT(problems_of(spec), at("/training/clip/where"));
}

TEST(JobSpec, PrecisionIsOneOfTwo) {
  json spec = minimal();
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(spec["training"]["precision"], "float32");
  EXPECT_EQ(parse_job_spec(spec).value().training.precision, Precision::float32);
  spec["training"]["precision"] = "bfloat16";
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(parse_job_spec(spec).value().training.precision, Precision::bfloat16);
  spec["training"].erase("precision");  // as in specs that were stored before there was one
  EXPECT_EQ(parse_job_spec(spec).value().training.precision, Precision::float32);
  spec["training"]["precision"] = "bfloat";
  EXPECT_THAT(normalize_job_spec(spec, test_catalog()),
              ElementsAre(Problem{"/training/precision", "must be one of \"float32\", \"bfloat16\"", "bfloat16"}));
}

TEST(JobSpec, GpusAreWholeOrAPartOfOne) {
  json spec = minimal();
  for (const double good : {0.0, 0.25, 1.0, 2.0, 8.0}) {
    spec["resources"] = {{"per_worker", {{"gpu", good}}}};
    EXPECT_THAT(problems_of(spec), IsEmpty()) << good;
  }
  spec["resources"] = {{"per_worker", {{"gpu", 1.5}}}};
  const auto found = normalize_job_spec(spec, test_catalog());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pointer, "/resources/per_worker/gpu");
  EXPECT_EQ(found[0].message,
            "a process gets a part of one GPU or whole ones: must be at most 1 or a whole number, and is 1.5");
}

TEST(JobSpec, TheConcentrationIsOfThePartitionDirichlet) {
  json spec = minimal();
  spec["dataset"]["dirichlet_alpha"] = 0.1;
  for (const char* other : {"iid", "by_class"}) {
    spec["dataset"]["partition"] = other;
    EXPECT_THAT(problems_of(spec), at("/dataset/dirichlet_alpha")) << other;
  }
  spec["dataset"]["dirichlet_alpha"] = 0.5;
  EXPECT_THAT(problems_of(spec), IsEmpty()) << "the default changes nothing";
  spec["dataset"]["dirichlet_alpha"] = 0.1;
  spec["dataset"]["partition"] = "dirichlet";
  EXPECT_THAT(problems_of(spec), IsEmpty());
}

TEST(JobSpec, LabelsAreTyped) {
  json spec = minimal();
  spec["resources"] = {{"labels", {{"zone", "north"}}}};
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(parse_job_spec(spec)->resources.labels, (std::map<std::string, std::string>{{"zone", "north"}}));
}

TEST(JobSpec, NamesOfResourcesAndLabelsAreLimited) {
  for (const char* field : {"per_worker", "per_server", "per_state_server", "labels"}) {
    const bool labels = std::string_view(field) == "labels";
    const json value = labels ? json("x") : json(1);
    const std::string pointer = std::string("/resources/") + field;
    json spec = minimal();
    json& given = spec["resources"][field];
    given[std::string(labels ? 257 : 65, 'r')] = value;
    EXPECT_THAT(problems_of(spec), at(pointer.c_str()));
    given = json::object();
    for (int i = 0; i < 65; ++i) given["r" + std::to_string(i)] = value;
    EXPECT_THAT(problems_of(spec), ElementsAre(Problem{pointer, "must have at most 64 names"}));
  }
}

TEST(JobSpec, TellsOfTheFirstHundredProblems) {
  json spec = minimal();
  for (int i = 0; i < 90; ++i) spec["field" + std::to_string(i)] = i;
  for (int i = 0; i < 90; ++i) spec["model"]["params"]["p" + std::to_string(i)] = i;
  const auto problems = problems_of(spec);
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_THAT(problems.front().pointer, "/field0");
  EXPECT_THAT(problems[99].pointer, HasSubstr("/model/params/p"));
  EXPECT_THAT(problems.back().message, HasSubstr("and more"));
}

TEST(JobSpec, FieldsMustFitEachOther) {
  json spec = minimal();
  spec["resources"] = {{"workers", 2}, {"min_workers", 3}};
  spec["compression"] = {{"name", "none"}, {"memory", "dgc"}};
  EXPECT_THAT(problems_of(spec), at("/resources/min_workers"));
  EXPECT_THAT(problems_of(spec), at("/compression/memory"));
}

TEST(JobSpec, WrongShapesAreRefusedBeforeTheCatalogIsAsked) {
  for (const char* text : {"null", "[]", "7", R"({"model": 1, "dataset": []})", R"({"model": {"name": 5}})",
                           R"({"model": {"name": "lenet", "params": []}, "dataset": {"name": "fashion-mnist"}})"}) {
    EXPECT_FALSE(problems_of(json::parse(text)).empty()) << text;
  }
  EXPECT_EQ(parse_job_spec(minimal()).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::protocol
