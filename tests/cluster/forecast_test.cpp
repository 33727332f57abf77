#include "cluster/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/fake_cluster.hpp"
#include "tests/protocol/test_catalog.hpp"
#include "training/shapes.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

protocol::JobSpec parsed(json spec) {
  const auto problems = protocol::normalize_job_spec(spec, protocol::test_catalog());
  EXPECT_THAT(problems, IsEmpty());
  return protocol::parse_job_spec(spec).value();
}

protocol::JobSpec lenet(std::uint32_t workers, const json& more) {
  json spec = {
      {"model", {{"name", "lenet"}}}, {"dataset", {{"name", "fashion-mnist"}}}, {"resources", {{"workers", workers}}}};
  spec.merge_patch(more);
  return parsed(std::move(spec));
}

json cost(const protocol::JobSpec& spec, const json& catalog = protocol::test_catalog()) {
  const auto shape = training::training_shape(spec).value();
  return round_cost(spec, &shape, catalog);
}

// LeNet on Fashion-MNIST: 430,500 entries in matrices and kernels, 580 in biases.

TEST(RoundCost, TensorsOfOneDimensionGoThroughTheDenseRing) {
  EXPECT_EQ(cost(lenet(4, json::object())),
            (json{{"parameters", 431'080}, {"bytes_dense", 6 * 431'080}, {"bytes_sent", 6 * 431'080}}));
  // Three ranks: two payloads of half a bit an entry, and 4/3 of the 580 floats.
  EXPECT_EQ(cost(lenet(3, {{"compression", {{"name", "topk"}}}}))["bytes_sent"], 430'500 / 8 + 1 + 16 * 580 / 3);
  EXPECT_EQ(
      cost(lenet(3, {{"compression", {{"name", "topk"}}}, {"exchange", {{"topology", "servers"}}}}))["bytes_sent"],
      430'500 / 12 + 16 * 580 / 3)
      << "by owners, two thirds of a payload twice";
  json catalog = protocol::test_catalog();
  const auto cost_of_vectors_from = [&](std::uint64_t entries) {
    catalog["compressors"][1]["traits"]["vector_entries_min"] = entries;
    return cost(lenet(3, {{"compression", {{"name", "topk"}}}}), catalog)["bytes_sent"];
  };
  EXPECT_EQ(cost_of_vectors_from(0), 431'080 / 8) << "unless the compressor takes them";
  EXPECT_EQ(cost_of_vectors_from(500), 431'000 / 8 + 16 * 80 / 3 + 1)
      << "or those that are as long as the bias of 500, rounded to the nearest byte";
}

TEST(RoundCost, IsUnknownForAModelThatOnlyItsFileDescribes) {
  auto spec = lenet(4, json::object());
  spec.model = {"torchscript", {{"file", "mine.pt"}}};
  EXPECT_EQ(cost(spec), (json{{"parameters", nullptr}, {"bytes_dense", nullptr}, {"bytes_sent", nullptr}}));
}

TEST(RoundCost, ARatioOfOnesOwnScalesIt) {
  const auto sent = [](double ratio) {
    const json params = {{"ratio", ratio}};
    return cost(lenet(3, {{"compression", {{"name", "topk"}, {"params", params}}}}))["bytes_sent"];
  };
  EXPECT_EQ(sent(0.02), 430'500 / 4 + 16 * 580 / 3);
  EXPECT_EQ(sent(0.04), 430'500 / 2 + 16 * 580 / 3);
  EXPECT_EQ(sent(0.42), 430'500 * 21 / 4 + 16 * 580 / 3) << "21 bits an entry";
  EXPECT_EQ(sent(0.44), 16 * 431'080 / 3) << "22 bits of 3 ranks are more than the dense ring's 64 / 3";
  EXPECT_EQ(cost(lenet(3, {{"compression", {{"name", "dgc"}}}}))["bytes_sent"], nullptr) << "the catalog does not tell";
}

TEST(RoundCost, WhatWorkersDecideWhileTheyTrainIsNotForetold) {
  json more = {{"exchange", {{"topology", "auto"}}}};
  for (const char* compressor : {"none", "topk"}) {
    more["compression"]["name"] = compressor;
    EXPECT_EQ(cost(lenet(4, more)),
              (json{{"parameters", 431'080}, {"bytes_dense", 6 * 431'080}, {"bytes_sent", nullptr}}));
  }
}

TEST(RoundCost, WhatNeighboursAndServersAreSentIsNotThatOfARing) {
  json catalog = protocol::test_catalog();
  for (const char* exchanges : {"models", "pushes"}) {
    catalog["modes"][0]["exchanges"] = exchanges;
    EXPECT_EQ(cost(lenet(4, json::object()), catalog),
              (json{{"parameters", 431'080}, {"bytes_dense", 6 * 431'080}, {"bytes_sent", nullptr}}));
  }
  catalog["modes"][0]["exchanges"] = "differences";
  EXPECT_EQ(cost(lenet(4, json::object()), catalog), cost(lenet(4, json::object())));
}

TEST(RoundCost, AnExchangeOfAFragmentIsAPartOfTheModel) {
  auto spec = lenet(4, json::object());
  spec.training.mode.params = {{"fragments", 4}};
  EXPECT_EQ(cost(spec),
            (json{{"parameters", 431'080}, {"bytes_dense", 6 * 431'080 / 4}, {"bytes_sent", 6 * 431'080 / 4}}));
  spec.training.mode.params["fragments"] = 1000;
  EXPECT_EQ(cost(spec)["bytes_sent"], 6 * 431'080 / 8) << "there are no more fragments than tensors";
}

TEST(RoundCost, NothingIsMadeUpWhereNothingIsKnown) {
  EXPECT_EQ(round_cost(lenet(3, json::object()), nullptr, protocol::test_catalog()),
            (json{{"parameters", nullptr}, {"bytes_dense", nullptr}, {"bytes_sent", nullptr}}));
}

std::vector<Warning> warnings(const protocol::JobSpec& spec, const json& catalog = protocol::test_catalog()) {
  return warnings_of(spec, training::training_shape(spec).value(), catalog);
}

json dgc(const json& params) { return {{"compression", {{"name", "dgc"}, {"params", params}}}}; }

TEST(Warnings, ARatioThatSendsAnEntryLessThanFiveTimesAfterTheWarmUp) {
  // 60,000 examples, 4 workers, batches of 64: 234 steps an epoch; two epochs, one of them warm-up.
  const json two_epochs = {{"training", {{"epochs", 2}}}};
  json more = dgc({{"ratio", 0.001}});
  more.merge_patch(two_epochs);
  const auto found = warnings(lenet(4, more));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pointer, "/compression/params/ratio");
  EXPECT_EQ(found[0].detail,
            "at a ratio of 0.001 each entry of the gradient is sent 0.23 times on average in the 234 steps after the "
            "warm-up; below about 5 much of what is learned is never sent: train longer, with smaller batches, or ask "
            "for a ratio of 0.021 or more");
  EXPECT_THAT(warnings(lenet(4, json(two_epochs))), IsEmpty()) << "none has no ratio";
  more["compression"]["params"]["ratio"] = 0.0213;
  EXPECT_EQ(warnings(lenet(4, more)).size(), 1u) << "4.98 times";
  more["compression"]["params"]["ratio"] = 0.0214;
  EXPECT_THAT(warnings(lenet(4, more)), IsEmpty()) << "5.01 times";
}

TEST(Warnings, TheSameLengthGivenInStepsGivesTheSame) {
  json epochs = dgc({{"ratio", 0.02}});
  json steps = epochs;
  epochs["training"] = {{"epochs", 2}};
  steps["training"] = {{"epochs", 100}, {"max_steps", 468}};
  ASSERT_EQ(warnings(lenet(4, epochs)).size(), 1u);
  ASSERT_EQ(warnings(lenet(4, steps)).size(), 1u);
  EXPECT_EQ(warnings(lenet(4, steps))[0].detail, warnings(lenet(4, epochs))[0].detail);
}

TEST(Warnings, AnEntryIsSentInExchangesAndNotInEveryStep) {
  json fields = dgc({{"ratio", 0.03}, {"warmup_epochs", 0}});
  fields["training"] = {{"epochs", 2}};
  auto spec = lenet(4, fields);
  EXPECT_THAT(warnings(spec), IsEmpty()) << "14 times";
  spec.training.mode.params["period"] = 100;
  const auto found = warnings(spec);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].detail, HasSubstr("is sent 0.14 times on average in the 4 exchanges of the training"));
}

TEST(Period, IsThatOfTheMode) {
  EXPECT_EQ(period_of(lenet(4, json::object())), 1u);
  const json apart = {{"training", {{"mode", "apart"}}}};
  EXPECT_EQ(period_of(lenet(4, apart)), 10u) << "by default";
  EXPECT_EQ(period_of(lenet(4, {{"training", {{"mode", "apart"}, {"params", {{"period", 25}}}}}})), 25u);
}

TEST(Warnings, ARatioThatIsNotUsedGivesNone) {
  const auto spec = lenet(4, dgc({{"ratio", 0.001}}));
  EXPECT_EQ(warnings(spec).size(), 1u);
  json catalog = protocol::test_catalog();
  for (json& compressor : catalog["compressors"]) {
    if (compressor["name"] != "dgc") continue;
    json& properties = compressor["params"]["properties"];
    properties["chosen"] = {{"default", "rows"}};
    properties["ratio"]["onlyWhere"] = {{"chosen", {{"enum", {"entries", "blocks"}}}}};
  }
  EXPECT_THAT(warnings(spec, catalog), IsEmpty());
}

TEST(Warnings, StepsFollowEveryFieldThatDecidesThem) {
  const auto steps = [](std::uint32_t workers, const json& more) {
    const auto spec = lenet(workers, more);
    return count_steps(spec, training::training_shape(spec).value(), protocol::test_catalog()).value();
  };
  EXPECT_EQ(steps(1, json::object()).total, 937u);
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2}}}}).per_epoch, 234u);
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2.5}}}}).total, 585u);
  EXPECT_EQ(steps(6, {{"training", {{"epochs", 1.1}, {"batch_size", 100}}}}).total, 110u) << "and no part of one more";
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2}, {"batch_size", 100}}}}).total, 300u);
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2}, {"max_steps", 50}}}}).total, 50u);
  const json accumulate = {{"accumulate", 4}};
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2}, {"params", accumulate}}}}).total, 116u) << "58 steps of 256 samples";
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2}, {"params", accumulate}, {"max_steps", 50}}}}).total, 50u);
  EXPECT_EQ(steps(4, {{"training", {{"epochs", 2}}}}).warmup, 0u);
  EXPECT_EQ(steps(4, {{"compression", {{"name", "powersgd"}, {"params", {{"start_step", 10}}}}}}).warmup, 10u);
  json more = dgc({{"warmup_epochs", 0.5}});
  EXPECT_EQ(steps(4, more).warmup, 117u);
  more["training"] = {{"params", accumulate}};
  EXPECT_EQ(steps(4, more).warmup, 29u);
  more["training"] = {{"max_steps", 100}};
  EXPECT_EQ(steps(4, more).warmup, 100u) << "no more than there are";
  EXPECT_THAT(warnings(lenet(4, more))[0].detail, HasSubstr("or without a compressor that leaves entries out"));
}

TEST(Warnings, AWarmUpInExchangesLastsForAsManyPeriods) {
  const json powersgd = {{"name", "powersgd"}, {"params", {{"start_step", 10}}}};
  auto spec = lenet(4, {{"compression", powersgd}, {"training", {{"mode", "apart"}, {"epochs", 2}}}});
  const auto warmup = [&, shape = training::training_shape(spec).value()] {
    return count_steps(spec, shape, protocol::test_catalog())->warmup;
  };
  EXPECT_EQ(warmup(), 100u);
  spec.training.mode.params["post_local_epoch"] = 0.02;
  EXPECT_EQ(warmup(), 55u) << "five steps with an exchange in each, and five periods";
  spec.training.mode.params["period"] = 100;
  EXPECT_EQ(warmup(), 468u) << "no more than there are";
  spec.training.mode.params.erase("period");
  EXPECT_EQ(warmup(), 0u) << "of how many steps an exchange is, the workers find out";
}

TEST(Warnings, AStepIsMadeOfTheGradientsThatAreNotLeftOut) {
  auto spec = lenet(4, {{"training", {{"epochs", 2}}}});
  const auto shape = training::training_shape(spec).value();
  spec.training.mode.params["backup_workers"] = 2;
  EXPECT_EQ(count_steps(spec, shape, protocol::test_catalog())->total, 2u * 468) << "60,000 examples for two workers";
  // A worker has its quarter of the examples all the same, and must find a batch in it.
  spec.training.batch_size = 15'000;
  EXPECT_THAT(problems_of(spec, shape), IsEmpty());
  spec.training.batch_size = 15'001;
  ASSERT_EQ(problems_of(spec, shape).size(), 1u);
  EXPECT_EQ(problems_of(spec, shape)[0].pointer, "/training/batch_size");
}

TEST(Problems, AGroupOfTheOptimizerTakesAParameterOfTheModel) {
  auto spec = lenet(4, json::object());
  const auto shape = training::training_shape(spec).value();
  spec.training.optimizer.params["groups"] = {{{"parameters", "*bias"}}, {{"parameters", "conv9.*"}}};
  const auto problems = problems_of(spec, shape);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].pointer, "/training/optimizer/groups/1/parameters");
  EXPECT_THAT(problems[0].message, HasSubstr("no parameter of the model fits \"conv9.*\"; there are "));
}

TEST(Warnings, AWarmUpOfOpenLengthIsTheCatalogsShareOfTheTraining) {
  json catalog = protocol::test_catalog();
  auto spec = lenet(4, {{"compression", {{"name", "dgc"}}}, {"training", {{"epochs", 2}}}});
  spec.compression.compressor.params["warmup_epochs"] = nullptr;
  const auto shape = training::training_shape(spec).value();
  EXPECT_EQ(count_steps(spec, shape, catalog)->warmup, 0u);
  catalog["compressors"][2]["traits"]["usual_warmup"] = {
      {"share", 0.25}, {"share_where_rate_falls", 0.5}, {"epochs_max", 4}};
  EXPECT_EQ(count_steps(spec, shape, catalog)->warmup, 117u);
  catalog["lr_schedules"].push_back({{"name", "falling"}, {"falls", true}});
  spec.training.lr_schedule = {"falling", json::object()};
  EXPECT_EQ(count_steps(spec, shape, catalog)->warmup, 234u);
  spec.training.epochs = 20;
  EXPECT_EQ(count_steps(spec, shape, catalog)->warmup, 4u * 234);
}

// Two epochs of 234 steps: the last step has the number 467.
TEST(Warnings, AWarmUpOfOpenLengthIsThatOfAConstantRateWhereTheTrainingEndsBeforeTheFirstFall) {
  json catalog = protocol::test_catalog();
  catalog["compressors"][2]["traits"]["usual_warmup"] = {
      {"share", 0.25}, {"share_where_rate_falls", 0.5}, {"epochs_max", 4}};
  for (const char* name : {"multistep", "step", "cosine"}) {
    catalog["lr_schedules"].push_back({{"name", name}, {"falls", true}});
  }
  auto spec = lenet(4, {{"compression", {{"name", "dgc"}}}, {"training", {{"epochs", 2}}}});
  spec.compression.compressor.params["warmup_epochs"] = nullptr;
  const auto shape = training::training_shape(spec).value();
  const auto falls = [&](const char* name, const json& params) {
    spec.training.lr_schedule = {name, params};
    const auto warmup = count_steps(spec, shape, catalog)->warmup;
    EXPECT_TRUE(warmup == 117 || warmup == 234) << warmup;
    return warmup == 234;
  };
  EXPECT_FALSE(falls("multistep", {{"milestones", {30, 60, 80}}, {"gamma", 0.1}}));
  EXPECT_FALSE(falls("multistep", {{"milestones", {2, 30}}, {"gamma", 0.1}})) << "after the last step";
  EXPECT_TRUE(falls("multistep", {{"milestones", {30, 1.99}}, {"gamma", 0.1}}));
  EXPECT_FALSE(falls("multistep", {{"milestones", {1}}, {"gamma", 1}})) << "to the same rate";
  EXPECT_FALSE(falls("multistep", {{"milestones", json::array()}, {"gamma", 0.1}}));
  EXPECT_FALSE(falls("step", {{"epochs", 2}, {"gamma", 0.1}}));
  EXPECT_TRUE(falls("step", {{"epochs", 1.5}, {"gamma", 0.1}}));
  EXPECT_TRUE(falls("cosine", {{"warmup_epochs", 1.5}}));
  EXPECT_FALSE(falls("cosine", {{"warmup_epochs", 2}})) << "it still rises";
}

TEST(Warnings, FilesThatNobodyHasReadGiveNone) {
  json more = dgc({{"ratio", 0.001}});
  more["dataset"] = {{"name", "fashion-mnist"}, {"path", "/data"}};
  EXPECT_THAT(warnings(lenet(4, more)), IsEmpty());
}

TEST(Head, SubmitAndValidateGiveTheSameWarnings) {
  FakeCluster cluster;
  const auto spec = FakeCluster::spec(4, dgc({{"ratio", 0.001}}));
  const auto validation = cluster.simulation.run(cluster.head->validate(spec)).value();
  ASSERT_EQ(validation.warnings.size(), 1u);
  const auto first = cluster.submit(spec, "key");
  EXPECT_EQ(first.warnings, validation.warnings);
  EXPECT_EQ(cluster.submit(spec, "key").warnings, validation.warnings) << "a repeat gets the same answer";
}

TEST(Head, AJobThatNoWorkerCouldBeginIsRefused) {
  FakeCluster cluster;
  const auto large = FakeCluster::spec(1000, {{"training", {{"batch_size", 61}}}});
  const auto refused = cluster.submit(large);
  ASSERT_EQ(refused.problems.size(), 1u);
  EXPECT_EQ(refused.problems[0].pointer, "/training/batch_size");
  EXPECT_EQ(refused.problems[0].message,
            "a worker's share of the dataset, 60 of 60000 examples, is smaller than a batch of 61");
  EXPECT_TRUE(cluster.submit(FakeCluster::spec(1000, {{"training", {{"batch_size", 60}}}})).created);

  const auto steps_of = [](std::uint64_t batches) {
    return FakeCluster::spec(1000, {{"training", {{"batch_size", 15}, {"params", {{"accumulate", batches}}}}}});
  };
  const auto long_step = cluster.submit(steps_of(5));
  ASSERT_EQ(long_step.problems.size(), 1u);
  EXPECT_EQ(long_step.problems[0].pointer, "/training/params/accumulate");
  EXPECT_EQ(long_step.problems[0].message,
            "a worker's share of the dataset, 60 of 60000 examples, is smaller than a step of 5 batches of 15");
  EXPECT_TRUE(cluster.submit(steps_of(4)).created);
}

TEST(Head, FewerClassesThanWorkersAreNotDividedByClass) {
  FakeCluster cluster;
  const json by_class = {{"dataset", {{"partition", "by_class"}}}};
  EXPECT_TRUE(cluster.submit(FakeCluster::spec(10, by_class)).created);
  const auto refused = cluster.submit(FakeCluster::spec(11, by_class));
  ASSERT_EQ(refused.problems.size(), 1u);
  EXPECT_EQ(refused.problems[0].pointer, "/dataset/partition");
  EXPECT_EQ(refused.problems[0].message,
            "\"by_class\" gives each worker classes of its own, and there are 10 classes for 11 workers; take fewer "
            "workers, or \"dirichlet\"");
}

/// The classes of a text are its sections: 1,024, or one for each example if those are fewer.
TEST(Problems, ATextIsDividedByClassAmongNoMoreWorkersThanItHasSections) {
  auto spec = lenet(1, {{"dataset", {{"partition", "by_class"}}}, {"training", {{"batch_size", 1}}}});
  spec.model = {"gpt", json::object()};
  const auto problems = [&](const char* dataset, const json& params, std::uint32_t workers) {
    spec.dataset.choice = {dataset, params};
    spec.resources.workers = workers;
    return problems_of(spec, training::training_shape(spec).value());
  };
  EXPECT_THAT(problems("synthetic-text", {{"train_examples", 4}}, 4), IsEmpty());
  const auto few = problems("synthetic-text", {{"train_examples", 3}}, 4);
  ASSERT_FALSE(few.empty());
  EXPECT_EQ(few[0].pointer, "/dataset/partition");
  EXPECT_THAT(few[0].message, HasSubstr("there are 3 classes for 4 workers"));
  const auto many = problems("synthetic-text", {{"train_examples", 2000}}, 1025);
  ASSERT_EQ(many.size(), 1u);
  EXPECT_EQ(many[0].pointer, "/dataset/partition");
  EXPECT_THAT(problems("text", json::object(), 1024), IsEmpty()) << "its examples are not known here";
  EXPECT_EQ(problems("text", json::object(), 1025).size(), 1u) << "but there are no more sections than that";
}

}  // namespace
}  // namespace weir::cluster
