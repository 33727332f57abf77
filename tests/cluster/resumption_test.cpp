#include "cluster/resumption.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/cluster/fake_cluster.hpp"
#include "tests/protocol/test_catalog.hpp"
#include "training/shapes.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// With what these tests need: a mode with graphs, one whose workers exchange when they have time, a compressor whose
/// warm-up may be left open and one whose residuals owners keep.
json catalog_of_all() {
  json catalog = protocol::test_catalog();
  catalog["modes"].push_back(json::parse(R"({
    "name": "gossip", "summary": "", "exchanges": "models", "topologies": ["ring"],
    "params": {"type": "object", "additionalProperties": false, "properties": {
      "graph": {"type": "string", "enum": ["ring", "complete", "random_regular"], "default": "ring"},
      "degree": {"type": "integer", "minimum": 1, "default": 2}}}})"));
  catalog["modes"].push_back(json::parse(R"({
    "name": "timed", "summary": "", "exchanges": "differences", "topologies": ["ring"],
    "params": {"type": "object", "additionalProperties": false, "properties": {}}})"));
  catalog["optimizers"][0]["params"]["properties"]["weight_decay"] = {
      {"type", "number"}, {"minimum", 0}, {"default", 0}};
  for (json& compressor : catalog["compressors"]) {
    json& traits = compressor["traits"];
    if (compressor["name"] == "none") traits["lossless"] = true;
    if (compressor["name"] == "topk") traits["owners_keep_residual"] = true;
    if (compressor["name"] != "dgc") continue;
    traits["usual_warmup"] = {{"share", 0.5}, {"share_where_rate_falls", 0.5}, {"epochs_max", 4}};
    compressor["params"]["properties"]["warmup_epochs"] = {
        {"type", {"number", "null"}}, {"minimum", 0}, {"default", nullptr}};
  }
  return catalog;
}

const json catalog = catalog_of_all();

/// A job of LeNet on Fashion-MNIST with 4 workers, 234 steps an epoch, that goes on from the newest checkpoint of J.
struct Job {
  explicit Job(const json& more)
      : spec({{"model", {{"name", "lenet"}}},
              {"dataset", {{"name", "fashion-mnist"}}},
              {"resources", {{"workers", 4}}},
              {"checkpoint", {{"resume_from", {{"job", "J"}}}}}}) {
    spec.merge_patch(more);
    EXPECT_THAT(protocol::normalize_job_spec(spec, catalog), IsEmpty()) << more;
    parsed = protocol::parse_job_spec(spec).value();
    shape = training::training_shape(parsed).value();
  }
  KnownJob known() const { return {spec, parsed, &shape}; }

  json spec;
  protocol::JobSpec parsed;
  protocol::TrainingShape shape;
};

const json long_training = {{"training", {{"epochs", 8}}}};

/// What is said of a job that goes on from step 468 of another one, if it lasts longer.
auto problems(const json& before, json now) {
  now.merge_patch(long_training);
  const Job origin(before);
  const std::array checkpoints{CheckpointRecord{"J", 468, 0, {}}};
  return problems_of_resuming(Job(now).known(), {"J", origin.known(), checkpoints}, catalog);
}
auto warnings(const json& before, json now) {
  now.merge_patch(long_training);
  const Job origin(before);
  const std::array checkpoints{CheckpointRecord{"J", 468, 0, {}}};
  return warnings_of_resuming(Job(now).known(), {"J", origin.known(), checkpoints}, catalog);
}

const json two_epochs = {{"training", {{"epochs", 2}}}};

json compressed(const std::string& name, const json& params = json::object(), const json& more = json::object()) {
  json spec = {{"compression", {{"name", name}, {"params", params}}}};
  spec.merge_patch(more);
  return spec;
}

TEST(Resumption, EpochsOfAnotherLengthGiveAWarning) {
  EXPECT_THAT(warnings(two_epochs, json::object()), IsEmpty());
  const auto smaller = warnings(two_epochs, {{"training", {{"batch_size", 32}}}});
  ASSERT_THAT(smaller, SizeIs(1));
  EXPECT_EQ(smaller[0].pointer, "/training/batch_size");
  EXPECT_EQ(smaller[0].detail,
            "the checkpoint's step 468 is epoch 2 there and 1 here: schedules and warm-ups go by the latter");
  const auto accumulated = warnings(two_epochs, {{"training", {{"params", {{"accumulate", 2}}}}}});
  ASSERT_THAT(accumulated, SizeIs(1));
  EXPECT_THAT(accumulated[0].detail, HasSubstr("is epoch 2 there and 4 here"));
}

TEST(Resumption, AWarmUpThatBeginsAgainGivesAWarningAndMayBeLeftOut) {
  const json before = compressed("dgc", json::object(), two_epochs);
  const auto again = warnings(before, compressed("dgc"));
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].pointer, "/compression/params/warmup_epochs");
  EXPECT_EQ(again[0].detail,
            "the compressor's warm-up was over there at the checkpoint's step 468, and here it lasts until step 936: "
            "until then less is compressed; set 0 to go on without");
  const json without = compressed("dgc", {{"warmup_epochs", 0}});
  EXPECT_THAT(problems(before, without), IsEmpty());
  EXPECT_THAT(warnings(before, without), IsEmpty());
  EXPECT_THAT(warnings(compressed("dgc", {{"warmup_epochs", 4}}, long_training), compressed("dgc")), IsEmpty())
      << "it was not over";

  const json powersgd = compressed("powersgd", {{"start_step", 10}}, two_epochs);
  const json late = compressed("powersgd", {{"start_step", 1000}});
  EXPECT_THAT(problems(powersgd, late), IsEmpty());
  ASSERT_THAT(warnings(powersgd, late), SizeIs(1));
  EXPECT_EQ(warnings(powersgd, late)[0].pointer, "/compression/params/start_step");

  const auto other = problems(before, compressed("dgc", {{"ratio", 0.01}}));
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_EQ(other[0].pointer, "/checkpoint/resume_from");
  EXPECT_EQ(other[0].message, "/compression must be as in job J, but for the parameters of its warm-up");
}

// In step 468 of a period of 8 there have been 58 exchanges.
TEST(Resumption, AWarmUpInExchangesIsToldOfInSteps) {
  const auto of = [](const char* mode, std::uint64_t start_step, const json& params) {
    return compressed("powersgd", {{"start_step", start_step}},
                      {{"training", {{"mode", mode}, {"params", params}, {"epochs", 2}}}});
  };
  const json period = {{"period", 8}};
  const json before = of("apart", 10, period);
  EXPECT_THAT(warnings(before, of("apart", 58, period)), IsEmpty());
  const auto again = warnings(before, of("apart", 100, period));
  ASSERT_THAT(again, SizeIs(1)) << "100 is less than 468, and counts exchanges";
  EXPECT_EQ(again[0].pointer, "/compression/params/start_step");
  EXPECT_THAT(again[0].detail, HasSubstr("here it lasts until step 800:"));
  const auto until = [&](std::uint64_t period_here) {
    const auto found = warnings(before, of("apart", 100, {{"period", period_here}}));
    return found.empty() ? "" : found[0].detail;
  };
  EXPECT_THAT(until(4), HasSubstr("until step 636:")) << "42 exchanges more, and 117 by 468 in this period";
  EXPECT_THAT(until(20), HasSubstr("until step 1300:"));
  EXPECT_THAT(warnings(of("apart", 59, period), of("apart", 100, period)), IsEmpty()) << "it was not over";
  EXPECT_THAT(warnings(of("timed", 10, json::object()), of("timed", 1000, json::object())), IsEmpty())
      << "nobody knows in how many steps there are as many exchanges";
}

TEST(Resumption, RatesMayChangeAndMomentumMayNot) {
  const auto with = [](const json& optimizer) {
    json now = {{"training", {{"optimizer", {{"name", "sgd"}}}}}};
    now["training"]["optimizer"].update(optimizer);
    return problems(two_epochs, now);
  };
  EXPECT_THAT(with({{"lr", 0.001}, {"weight_decay", 0.01}}), IsEmpty());
  const auto momentum = with({{"momentum", 0.5}});
  ASSERT_THAT(momentum, SizeIs(1));
  EXPECT_EQ(momentum[0].pointer, "/checkpoint/resume_from");
  EXPECT_EQ(momentum[0].message, "/training/optimizer must be as in job J, but for lr and weight_decay");
}

TEST(Resumption, CompressedDifferencesNeedTheGraphThatTheyHadBefore) {
  const auto over = [](const json& params, const char* compressor = "topk", std::uint64_t seed = 1) {
    return compressed(compressor, json::object(),
                      {{"training", {{"mode", "gossip"}, {"params", params}, {"seed", seed}, {"epochs", 2}}}});
  };
  const json ring = {{"graph", "ring"}};
  const json complete = {{"graph", "complete"}};
  const json random = {{"graph", "random_regular"}, {"degree", 2}};
  EXPECT_THAT(problems(over(ring), over(ring, "topk", 2)), IsEmpty()) << "the seed draws no edge";
  EXPECT_THAT(problems(over(random), over(random)), IsEmpty());
  EXPECT_THAT(problems(over(ring, "none"), over(complete, "none")), IsEmpty()) << "there are no sums";
  const auto other = problems(over(ring), over(complete));
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_EQ(other[0].pointer, "/training/params/graph");
  EXPECT_EQ(other[0].message,
            "with a compressor each worker has a sum over its neighbours in the checkpoint, so that the graph must be "
            "as in job J: \"ring\"");
  const json denser = {{"graph", "random_regular"}, {"degree", 3}};
  ASSERT_THAT(problems(over(random), over(denser)), SizeIs(1));
  const auto drawn = problems(over(random), over(random, "topk", 2));
  ASSERT_THAT(drawn, SizeIs(1));
  EXPECT_THAT(drawn[0].message, HasSubstr("as in job J: \"random_regular\" with degree 2 and training.seed 1"));
}

TEST(Resumption, WithoutAMemoryTheOwnersOfSharesStayTheSame) {
  const auto over = [](const json& exchange, const char* memory = "none") {
    return json{
        {"compression", {{"name", "topk"}, {"memory", memory}}}, {"exchange", exchange}, {"training", {{"epochs", 2}}}};
  };
  const json owners = {{"topology", "servers"}};
  const json ring = {{"topology", "ring"}};
  const json automatic = {{"topology", "auto"}};
  const json two = {{"topology", "servers"}, {"params", {{"servers", 2}}}};
  const json all = {{"topology", "servers"}, {"params", {{"servers", 4}}}};
  const json small = {{"topology", "servers"}, {"bucket_bytes", 65'536}};
  for (const json& other : {ring, two, small}) {
    const auto found = problems(over(owners), over(other));
    ASSERT_THAT(found, SizeIs(1)) << other;
    EXPECT_EQ(found[0].pointer, "/exchange");
    EXPECT_EQ(found[0].message,
              "without a memory nobody else can send what the owners of shares have left out of their means: topology, "
              "params and bucket_bytes must be as in job J");
    EXPECT_THAT(problems(over(owners, "residual"), over(other, "residual")), IsEmpty()) << "the memory takes it";
  }
  EXPECT_THAT(problems(over(owners), over(owners)), IsEmpty());
  EXPECT_THAT(problems(over(owners), over(all)), IsEmpty()) << "each owns a share in either";
  EXPECT_THAT(problems(over(ring), over(owners)), IsEmpty()) << "there were no owners";
  EXPECT_THAT(problems(over(owners), over(automatic)), IsEmpty()) << "who owns what is not known";
  EXPECT_THAT(problems(over(automatic), over(ring)), IsEmpty());
  const json exact = {{"compression", {{"name", "none"}}}, {"training", {{"epochs", 2}}}};
  json exact_by_owners = exact;
  exact_by_owners["exchange"] = owners;
  EXPECT_THAT(problems(exact_by_owners, exact), IsEmpty()) << "nothing was left out";
}

TEST(Resumption, ItsWarningsComeWithSubmitAndValidate) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto first = cluster.stopped_job(2);
  const auto spec = FakeCluster::spec(
      2, {{"training", {{"batch_size", 32}, {"epochs", 2}}}, {"checkpoint", {{"resume_from", {{"job", first}}}}}});
  const auto validation = cluster.simulation.run(cluster.head->validate(spec)).value();
  ASSERT_THAT(validation.warnings, SizeIs(1));
  EXPECT_EQ(validation.warnings[0].pointer, "/training/batch_size");
  EXPECT_EQ(cluster.submit(spec, "key").warnings, validation.warnings);
  EXPECT_EQ(cluster.submit(spec, "key").warnings, validation.warnings) << "a repeat gets the same answer";
}

}  // namespace
}  // namespace weir::cluster
