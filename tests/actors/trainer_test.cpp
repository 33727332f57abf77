#include "actors/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/errc.hpp"
#include "job_cluster.hpp"
#include "protocol/exchange_plan.hpp"
#include "protocol/safetensors.hpp"
#include "tests/training/folder.hpp"

namespace weir::actors {
namespace {

using protocol::Outcome;
using testing::Cluster;
using testing::job;
using testing::joined;
using testing::Office;
using testing::patience;
using testing::series;

std::vector<protocol::ExchangePlan> plans_of(const std::vector<protocol::Report>& reports) {
  std::vector<protocol::ExchangePlan> all;
  for (const auto& report : reports) {
    if (report.traffic) all.insert(all.end(), report.traffic->plans.begin(), report.traffic->plans.end());
  }
  return all;
}

TEST(Trainer, TrainsReportsEvaluatesAndSaves) {
  Cluster cluster(2);
  cluster.start(job("dgc"));
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_EQ(cluster.steps_total, 32u);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto& end = cluster.book.ends[rank];
    EXPECT_EQ(end.outcome, Outcome::finished) << end.cause;
    EXPECT_EQ(end.step, 32u);
    const auto& reports = cluster.book.reports[rank];
    for (std::size_t i = 0; i < reports.size(); ++i) EXPECT_EQ(reports[i].sequence, i + 1);
    const auto all = series(reports);
    for (const char* name :
         {"loss", "samples_per_second", "bytes_sent", "bytes_received", "bytes_dense", "compression_ratio",
          "step_seconds", "compute_seconds", "encode_seconds", "exchange_seconds", "decode_seconds", "wait_seconds"}) {
      ASSERT_TRUE(all.contains(name)) << name;
      EXPECT_EQ(all.at(name).size(), 32u) << name;
      EXPECT_EQ(all.at(name).back().step, 32u) << name;
    }
    EXPECT_EQ(all.at("bytes_sent_after_warmup").front().step, 5u);  // a tenth of 32 steps
    const double parameters = 64 * 16 + 16 + 16 * 4 + 4;
    EXPECT_DOUBLE_EQ(all.at("bytes_dense").back().value, 32 * 4 * parameters);
    EXPECT_EQ(static_cast<double>(all.at("loss").back().wire_bytes), all.at("bytes_sent").back().value);
    EXPECT_EQ(all.contains("accuracy"), rank == 0);
    std::optional<protocol::TrafficReport> traffic;
    for (const auto& report : reports) {
      EXPECT_TRUE(protocol::check(report.traffic, rank, 2));
      if (report.traffic) traffic = report.traffic;
    }
    ASSERT_TRUE(traffic);
    EXPECT_EQ(traffic->totals.step, 32u);
    ASSERT_TRUE(traffic->sampled);
    EXPECT_EQ(traffic->sampled->step, 32u);
    ASSERT_EQ(traffic->totals.links.size(), 1u);
    EXPECT_EQ(static_cast<double>(traffic->totals.links[0].bytes.sent), all.at("bytes_sent").back().value);
  }
  const auto accuracy = series(cluster.book.reports[0]).at("accuracy");
  EXPECT_EQ(accuracy.back().step, 32u);
  EXPECT_GT(accuracy.back().value, 0.5);
  for (const std::uint64_t step : {20u, 32u}) EXPECT_EQ(cluster.book.shares[step].size(), 2u) << step;
}

TEST(Trainer, CallsThatAreRepeatedHaveTheAnswersOfTheFirst) {
  using Peers = std::vector<protocol::RankEndpoint>;
  Cluster cluster(1);
  const auto assignment = cluster.assignment(job("none"), 0);
  auto& trainer = cluster.trainer(0);
  EXPECT_EQ(cluster.await(trainer.call<&protocol::Training::start>(Peers())).error().code, Errc::conflict);
  const auto prepared = cluster.await(trainer.call<&protocol::Training::prepare>(assignment)).value();
  const auto again = cluster.await(trainer.call<&protocol::Training::prepare>(assignment)).value();
  EXPECT_EQ(again.endpoint.port, prepared.endpoint.port);
  auto of_another = assignment;
  ++of_another.attempt;
  EXPECT_EQ(cluster.await(trainer.call<&protocol::Training::prepare>(of_another)).error().code, Errc::conflict);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(cluster.await(trainer.call<&protocol::Training::start>(Peers{prepared.endpoint})));
  }
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_EQ(cluster.book.ends[0].outcome, Outcome::finished) << cluster.book.ends[0].cause;
}

/// The loss of a model that has hardly moved from where it began, on the test examples.
double first_test_loss(const char* precision) {
  auto spec = job("none");
  spec["training"]["precision"] = precision;
  spec["training"]["max_steps"] = 1;
  spec["training"]["optimizer"]["lr"] = 1e-12;
  Cluster cluster(2);
  cluster.start(spec);
  EXPECT_TRUE(cluster.wait_for_ends());
  return series(cluster.book.reports[0]).at("test_loss").back().value;
}

TEST(Trainer, EvaluatesInThePrecisionOfTheTraining) {
  const double exact = first_test_loss("float32");
  const double rounded = first_test_loss("bfloat16");
  EXPECT_GT(std::abs(rounded - exact), 1e-7);
  EXPECT_NEAR(rounded, exact, 0.02 * exact);
}

TEST(Trainer, ReachesTheAccuracyOfFloat32InBfloat16) {
  const auto accuracy = [](const char* precision) {
    auto spec = job("dgc");
    spec["training"]["precision"] = precision;
    Cluster cluster(2);
    cluster.start(spec);
    EXPECT_TRUE(cluster.wait_for_ends());
    return series(cluster.book.reports[0]).at("accuracy").back().value;
  };
  const double exact = accuracy("float32");
  EXPECT_GT(exact, 0.5);
  EXPECT_NEAR(accuracy("bfloat16"), exact, 0.05);
}

TEST(Trainer, RankZeroTellsHowGradientsTravel) {
  Cluster cluster(2);
  cluster.start(job("topk"));
  ASSERT_TRUE(cluster.wait_for_ends());
  const auto plans = plans_of(cluster.book.reports[0]);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].reason, "exchange.topology is \"ring\"");
  EXPECT_FALSE(protocol::is_on_trial(plans[0]));
  const auto routes = protocol::routes_of(plans[0]);
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_EQ(std::pair(routes[0].form, routes[0].topology), std::pair(std::string("coded"), std::string("ring")));
  EXPECT_EQ(std::pair(routes[1].form, routes[1].topology), std::pair(std::string("float32"), std::string("tree")));
  EXPECT_TRUE(plans_of(cluster.book.reports[1]).empty());
}

TEST(Trainer, ATopologyIsChosenWhileItTrains) {
  auto spec = job("topk");
  spec["exchange"]["topology"] = "auto";
  spec["training"]["epochs"] = 8;  // of 16 steps: enough for as many trials as there may be
  Cluster cluster(3);
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  for (const auto& [rank, end] : cluster.book.ends) EXPECT_EQ(end.outcome, Outcome::finished) << end.cause;
  for (const auto& report : cluster.book.reports[0]) EXPECT_TRUE(protocol::check(report.traffic, 0, 3));
  const auto plans = plans_of(cluster.book.reports[0]);
  ASSERT_GE(plans.size(), 2u);
  EXPECT_EQ(plans.front().step, 0u);
  EXPECT_TRUE(protocol::is_on_trial(plans.front()));
  EXPECT_FALSE(protocol::is_on_trial(plans.back()));
  for (const auto& plan : plans) {
    const auto is_followed = [](const auto& candidate) { return candidate.followed; };
    ASSERT_EQ(std::ranges::count_if(plan.candidates, is_followed), 1) << plan.reason;
    EXPECT_EQ(std::ranges::find_if(plan.candidates, is_followed)->routes,
              protocol::to_string(protocol::routes_of(plan)));
    EXPECT_GT(plan.latency_seconds, 0);
    EXPECT_GT(plan.bytes_per_second, 0);
  }
}

TEST(Trainer, CountsOptimizerStepsWhereBatchesAccumulate) {
  auto spec = job("dgc");
  spec["training"]["params"] = {{"accumulate", 3}};
  Cluster cluster(2);
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_EQ(cluster.steps_total, 10u) << "twice 256 examples of a worker, 48 in a step";
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(cluster.book.ends[rank].outcome, Outcome::finished) << cluster.book.ends[rank].cause;
    EXPECT_EQ(cluster.book.ends[rank].step, 10u);
    const auto all = series(cluster.book.reports[rank]);
    EXPECT_EQ(all.at("loss").size(), 10u);
    EXPECT_EQ(all.at("bytes_sent_after_warmup").front().step, 2u);  // a tenth of 10 steps
    const double parameters = 64 * 16 + 16 + 16 * 4 + 4;
    EXPECT_DOUBLE_EQ(all.at("bytes_dense").back().value, 10 * 4 * parameters) << "one exchange in a step";
    for (std::size_t i = 0; i < 10; ++i) {
      const double samples = all.at("samples_per_second")[i].value * all.at("step_seconds")[i].value;
      EXPECT_NEAR(samples, 48, 1e-6) << "in step " << i;
    }
  }
  EXPECT_EQ(cluster.book.shares[10].size(), 2u);
}

TEST(Trainer, CheckpointsAndEvaluationsWaitForTheNextExchange) {
  auto spec = job("none");
  spec["training"]["mode"] = "local_sgd";
  spec["training"]["params"] = {{"period", 3}};
  Cluster cluster(2);
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(cluster.book.ends[rank].outcome, Outcome::finished) << cluster.book.ends[rank].cause;
    EXPECT_EQ(series(cluster.book.reports[rank]).at("loss").size(), 32U);
  }
  const auto all = series(cluster.book.reports[0]);
  const auto& ratio = all.at("compression_ratio").back();
  EXPECT_NEAR(ratio.value, 32.0 / 11, 0.2) << "11 exchanges instead of 32";
  const auto& steps = all.at("local_steps");
  ASSERT_EQ(steps.size(), 11U) << "a point for each exchange";
  EXPECT_EQ(steps.front().value, 3);
  EXPECT_EQ(steps.back().value, 2) << "steps 31 and 32";
  std::vector<std::uint64_t> evaluated;
  for (const auto& point : all.at("accuracy")) evaluated.push_back(point.step);
  // Every 10 steps. A model that waits while another is evaluated gives way to the next one, but for the last.
  EXPECT_THAT((std::vector<std::uint64_t>{12, 21, 30, 32}), ::testing::IsSupersetOf(evaluated));
  EXPECT_TRUE(std::ranges::is_sorted(evaluated));
  ASSERT_FALSE(evaluated.empty());
  EXPECT_EQ(evaluated.back(), 32U);
  std::vector<std::uint64_t> saved;
  for (const auto& [step, shares] : cluster.book.shares) saved.push_back(step);
  EXPECT_EQ(saved, (std::vector<std::uint64_t>{21, 32})) << "every 20 steps";
}

nlohmann::json served_job(const std::string& mode, std::uint32_t servers) {
  auto spec = job("topk");
  spec["compression"]["params"] = {{"ratio", 0.1}};
  spec["compression"]["memory"] = "residual";
  spec["training"]["mode"] = mode;
  spec["training"]["params"] = {{"servers", servers}};
  return spec;
}

TEST(ParameterServer, HoldsTheModelThatIsEvaluatedAndSaved) {
  for (const std::string mode : {"async", "ssp", "backup"}) {
    Cluster cluster(4, 2);
    cluster.start(served_job(mode, 2));
    ASSERT_TRUE(cluster.wait_for_ends());
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const auto& end = cluster.book.ends[rank];
      EXPECT_EQ(end.outcome, Outcome::finished) << mode << " " << rank << ": " << end.cause;
      EXPECT_EQ(end.step, cluster.steps_total) << rank;
      const auto all = series(cluster.book.reports[rank]);
      EXPECT_EQ(all.contains("loss"), rank < 2) << rank;
      EXPECT_EQ(all.contains("staleness"), rank >= 2) << rank;
      EXPECT_EQ(all.contains("dropped_gradients"), rank >= 2) << rank;
      EXPECT_EQ(all.contains("applied_gradients"), rank >= 2) << rank;
      EXPECT_TRUE(all.contains("wait_seconds")) << rank;
      EXPECT_EQ(all.contains("accuracy"), rank == 2) << rank;
      if (rank == 2) {
        EXPECT_GT(all.at("accuracy").back().value, 0.5) << mode;
      }
    }
    for (const auto& [step, shares] : cluster.book.shares) EXPECT_EQ(shares.size(), 4u) << step;
    EXPECT_TRUE(cluster.book.shares.contains(cluster.steps_total));
    joined(cluster.book.shares[cluster.steps_total]);
  }
}

TEST(ParameterServer, AStoppedJobGoesOnFromItsCheckpoint) {
  auto spec = served_job("async", 2);
  spec["training"]["epochs"] = 100000;
  Cluster stopped(4, 2);
  stopped.start(spec);
  ASSERT_TRUE(stopped.book.wait([&] { return !stopped.book.reports[2].empty(); }));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(stopped.await(stopped.trainer(rank).call<&protocol::Training::stop>()));
  }
  ASSERT_TRUE(stopped.wait_for_ends());
  const auto step = stopped.book.ends[2].step;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(stopped.book.ends[rank].outcome, Outcome::stopped) << stopped.book.ends[rank].cause;
    EXPECT_EQ(stopped.book.ends[rank].step, step) << rank;
  }
  ASSERT_TRUE(stopped.book.shares.contains(step));

  spec["training"]["max_steps"] = step + 10;
  Cluster resumed(4, 2);
  resumed.resume_from(joined(stopped.book.shares[step]));
  resumed.start(spec);
  ASSERT_TRUE(resumed.wait_for_ends());
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(resumed.book.ends[rank].outcome, Outcome::finished) << resumed.book.ends[rank].cause;
    EXPECT_EQ(resumed.book.ends[rank].step, step + 10) << rank;
    for (const auto& report : resumed.book.reports[rank]) {
      for (const auto& point : report.points) EXPECT_GE(point.step, step) << point.name;
    }
  }
}

TEST(ParameterServer, ThatIsKilledEndsTheJobAndIsNamed) {
  auto spec = served_job("ssp", 2);
  spec["training"]["epochs"] = 100000;
  Cluster cluster(4, 2);
  cluster.start(spec);
  ASSERT_TRUE(cluster.book.wait([&] { return !cluster.book.reports[0].empty(); }));
  cluster.kill(3);
  ASSERT_TRUE(cluster.book.wait(
      [&] { return cluster.book.ends.contains(0) && cluster.book.ends.contains(1) && cluster.book.ends.contains(2); }));
  bool named = false;
  for (const std::uint32_t rank : {0u, 1u, 2u}) {
    EXPECT_EQ(cluster.book.ends[rank].outcome, Outcome::failed);
    named = named || cluster.book.ends[rank].lost_rank == 3u;
  }
  EXPECT_TRUE(named);
}

TEST(ParameterServer, AndTrainerTakeOnlyAPlaceThatTheModeHas) {
  Cluster cluster(2, 1);
  const auto refused = [&](const nlohmann::json& spec, std::uint32_t actor, protocol::Assignment changed) {
    changed.spec = spec.dump();
    const auto prepared = cluster.await(cluster.trainer(actor).call<&protocol::Training::prepare>(changed));
    EXPECT_FALSE(prepared);
    return prepared ? Error{Errc::internal, "prepared"} : prepared.error();
  };
  const auto async = served_job("async", 1);
  const auto seat = [&](std::uint32_t rank) { return cluster.assignment(async, rank); };
  const auto without_servers = refused(job("topk"), 1, seat(1));
  EXPECT_EQ(without_servers.code, Errc::invalid_argument);
  EXPECT_NE(without_servers.context.find("needs workers only"), std::string::npos) << without_servers.context;
  const auto of_a_worker = refused(async, 0, seat(1));
  EXPECT_EQ(of_a_worker.code, Errc::invalid_argument);
  EXPECT_NE(of_a_worker.context.find("role server"), std::string::npos) << of_a_worker.context;
}

TEST(ParameterServer, IsNoneOfTheWorkers) {
  Cluster cluster(2, 1);
  const auto worker = cluster.await(
      cluster.trainer(1).call<&protocol::Training::prepare>(cluster.assignment(served_job("async", 1), 0)));
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().code, Errc::invalid_argument);
  EXPECT_NE(worker.error().context.find("role worker"), std::string::npos) << worker.error().context;
}

TEST(Trainer, AWorkerThatTrainsAloneListensNowhere) {
  auto spec = job("none");
  spec["training"]["mode"] = "local";
  spec["training"]["epochs"] = 1;
  Cluster cluster(1);
  const auto prepared =
      cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(cluster.assignment(spec, 0)));
  ASSERT_TRUE(prepared) << prepared.error().message();
  EXPECT_EQ(prepared->endpoint.port, 0);
  ASSERT_TRUE(cluster.await(
      cluster.trainer(0).call<&protocol::Training::start>(std::vector<protocol::RankEndpoint>{prepared->endpoint})));
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_EQ(cluster.book.ends[0].outcome, Outcome::finished) << cluster.book.ends[0].cause;
  const auto all = series(cluster.book.reports[0]);
  EXPECT_EQ(all.at("loss").size(), 32U);
  EXPECT_EQ(all.at("bytes_sent").back().value, 0);
  EXPECT_EQ(all.at("accuracy").back().step, 32U);
  EXPECT_TRUE(cluster.book.shares.contains(32));
}

TEST(Trainer, AWorkerThatTrainsAloneEndsWhenItIsTold) {
  auto spec = job("none");
  spec["training"]["mode"] = "local";
  spec["training"]["epochs"] = 100000;
  Cluster aborted(1);
  aborted.start(spec);
  ASSERT_TRUE(aborted.await(aborted.trainer(0).call<&protocol::Training::abort>("enough")));
  ASSERT_TRUE(aborted.wait_for_ends());
  EXPECT_EQ(aborted.book.ends[0].outcome, Outcome::failed);
  EXPECT_NE(aborted.book.ends[0].cause.find("enough"), std::string::npos) << aborted.book.ends[0].cause;
  Cluster stopped(1);
  stopped.start(spec);
  ASSERT_TRUE(stopped.await(stopped.trainer(0).call<&protocol::Training::stop>()));
  ASSERT_TRUE(stopped.wait_for_ends());
  EXPECT_EQ(stopped.book.ends[0].outcome, Outcome::stopped) << stopped.book.ends[0].cause;
}

/// The tensors of a checkpoint by their names, but for the states of random generators: the ranks of a test share
/// LibTorch's, of which there is one in a process.
std::map<std::string, Bytes> tensors_of(const Segment& checkpoint) {
  std::map<std::string, Bytes> found;
  for (const auto& tensor : protocol::read_safetensors(checkpoint).value().tensors) {
    if (!tensor.name.ends_with(".rng")) append(found[tensor.name], tensor.bytes);
  }
  return found;
}

TEST(Trainer, AStoppedJobResumesBitForBit) {
  auto spec = job("dgc");
  spec["training"]["epochs"] = 100000;
  spec["compression"]["params"]["warmup_epochs"] = 1;  // by default it depends on how long the training is
  Cluster stopped(2);
  stopped.start(spec);
  ASSERT_TRUE(stopped.await(stopped.trainer(1).call<&protocol::Training::stop>()));
  ASSERT_TRUE(stopped.wait_for_ends());
  const auto step = stopped.book.ends[0].step;
  EXPECT_EQ(stopped.book.ends[1].step, step);
  ASSERT_TRUE(stopped.book.shares.contains(step)) << "a stop takes a checkpoint";
  EXPECT_EQ(stopped.book.ends[0].outcome, Outcome::stopped);

  spec["training"]["max_steps"] = step + 10;
  Cluster whole(2);
  whole.start(spec);
  ASSERT_TRUE(whole.wait_for_ends());
  Cluster resumed(2);
  resumed.resume_from(joined(stopped.book.shares[step]));
  resumed.book.piece_bytes = 1000;
  resumed.book.refuse_pieces = 1;
  resumed.start(spec);
  ASSERT_TRUE(resumed.wait_for_ends());
  EXPECT_GT(resumed.book.pieces, 10);
  const auto expected = tensors_of(joined(whole.book.shares[step + 10]));
  EXPECT_GT(expected.size(), 8U);  // the model's four, and a rank's memory of each
  EXPECT_EQ(tensors_of(joined(resumed.book.shares[step + 10])), expected);
}

TEST(Trainer, ACheckpointOfAnotherLengthIsRefused) {
  Cluster cluster(1);
  cluster.book.resume_from[0] = Segment::own(Bytes(100));
  auto longer = cluster.assignment(job("none"), 0);
  longer.resume_bytes = 101;
  const auto refused = cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(longer));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::malformed) << refused.error().message();
}

TEST(Trainer, ACheckpointThatNoMemoryHoldsIsRefused) {
  Cluster cluster(1);
  auto endless = cluster.assignment(job("none"), 0);
  endless.resume_bytes = std::uint64_t{1} << 60;
  const auto refused = cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(endless));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::exhausted) << refused.error().message();
  EXPECT_EQ(cluster.book.pieces, 0);
}

TEST(Trainer, AReportIsRepeatedUntilItIsAnswered) {
  Cluster cluster(1);
  cluster.book.refuse_reports = 2;
  cluster.start(job("none"));
  ASSERT_TRUE(cluster.wait_for_ends());
  const auto& reports = cluster.book.reports[0];
  ASSERT_GE(reports.size(), 3u);
  EXPECT_EQ(reports[0].sequence, 1u);
  EXPECT_EQ(reports[1].sequence, 1u);
  EXPECT_EQ(reports[2].sequence, 1u);
  EXPECT_EQ(reports[0].points.size(), reports[2].points.size());
}

TEST(Trainer, ALostPeerEndsTheJobAtOnceAndIsNamed) {
  auto spec = job("topk");
  spec["training"]["epochs"] = 100000;
  Cluster cluster(3);
  cluster.start(spec);
  ASSERT_TRUE(cluster.book.wait([&] { return !cluster.book.reports[0].empty(); }));
  cluster.kill(2);
  ASSERT_TRUE(cluster.book.wait([&] { return cluster.book.ends.contains(0) && cluster.book.ends.contains(1); }));
  for (const std::uint32_t rank : {0u, 1u}) {
    EXPECT_EQ(cluster.book.ends[rank].outcome, Outcome::failed);
    EXPECT_FALSE(cluster.book.ends[rank].cause.empty());
  }
  const auto names_it = [&](std::uint32_t rank) { return cluster.book.ends[rank].lost_rank == 2u; };
  EXPECT_TRUE(names_it(0) || names_it(1));
}

TEST(Trainer, ARankThatFailsEndsTheOthersWhichSayThatTheyDoNotKnowTheCause) {
  auto spec = job("topk");
  spec["training"]["epochs"] = 100000;
  Cluster cluster(3);
  cluster.book.refuse_shares_of = 1;
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  for (const std::uint32_t rank : {0u, 1u, 2u}) {
    const auto& end = cluster.book.ends[rank];
    EXPECT_EQ(end.outcome, Outcome::failed);
    EXPECT_EQ(end.lost_rank, std::nullopt) << rank;
    EXPECT_EQ(end.consequence, rank != 1) << rank << ": " << end.cause;
    const std::string told = rank == 1 ? "the disk is full" : "rank 1 has given up";
    EXPECT_NE(end.cause.find(told), std::string::npos) << rank << ": " << end.cause;
  }
}

TEST(Trainer, AbortEndsTheJobWithTheCauseGiven) {
  auto spec = job("none");
  spec["training"]["epochs"] = 100000;
  Cluster cluster(2);
  cluster.start(spec);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(cluster.await(cluster.trainer(rank).call<&protocol::Training::abort>("worker 7 died")));
  }
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_NE(cluster.book.ends[0].cause.find("worker 7 died"), std::string::npos) << cluster.book.ends[0].cause;
}

TEST(Trainer, ADivergedTrainingSaysSo) {
  auto spec = job("none");
  spec["training"]["optimizer"]["lr"] = 1e30;
  Cluster cluster(1);
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_EQ(cluster.book.ends[0].outcome, Outcome::failed);
  EXPECT_NE(cluster.book.ends[0].cause.find("the training diverged"), std::string::npos) << cluster.book.ends[0].cause;
}

TEST(Trainer, AnExchangeThatIsNotBuiltInIsRefused) {
  Cluster cluster(2);
  auto star = job("none");
  star["exchange"]["topology"] = "star";
  auto rdma = job("none");
  rdma["exchange"]["transport"] = "rdma";
  std::uint32_t rank = 0;
  for (const auto& spec : {star, rdma}) {
    const auto prepared =
        cluster.await(cluster.trainer(rank).call<&protocol::Training::prepare>(cluster.assignment(spec, rank)));
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, Errc::unsupported);
    ++rank;
  }
}

TEST(Trainer, ACompressorThatOwnersCannotUseIsRefused) {
  Cluster cluster(1);
  auto spec = job("signum");
  spec["exchange"]["topology"] = "two_hop";
  const auto prepared =
      cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(cluster.assignment(spec, 0)));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::invalid_argument);
  EXPECT_NE(prepared.error().context.find("two_hop"), std::string::npos) << prepared.error().message();
}

TEST(Trainer, ACompressorThatSendsEveryEntryIsRefusedWhereChosenEntriesAreSplit) {
  Cluster cluster(2);
  const std::vector<std::pair<std::string, nlohmann::json>> misfits = {
      {"qsgd", nlohmann::json::object()}, {"randomk", {{"value_codec", "int8"}, {"unbiased", true}}}};
  std::uint32_t rank = 0;
  for (const auto& [name, params] : misfits) {
    auto spec = job(name);
    spec["compression"]["params"] = params;
    spec["exchange"]["topology"] = "split_gather";
    const auto prepared =
        cluster.await(cluster.trainer(rank).call<&protocol::Training::prepare>(cluster.assignment(spec, rank)));
    ASSERT_FALSE(prepared) << name;
    EXPECT_EQ(prepared.error().code, Errc::invalid_argument);
    EXPECT_NE(prepared.error().context.find("split_gather"), std::string::npos) << prepared.error().message();
    EXPECT_NE(prepared.error().context.find("chosen"), std::string::npos) << prepared.error().message();
    ++rank;
  }
}

TEST(Trainer, WhatCannotBePreparedIsRefused) {
  Cluster cluster(2);
  auto spec = job("none");
  spec["dataset"] = {
      {"name", "fashion-mnist"}, {"path", "/nonexistent"}, {"partition", "iid"}, {"params", nlohmann::json::object()}};
  const auto missing =
      cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(cluster.assignment(spec, 0)));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::not_found);
  const auto again = cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(cluster.assignment(spec, 0)));
  EXPECT_EQ(again.error(), missing.error()) << "a repeat";
  const auto early =
      cluster.await(cluster.trainer(1).call<&protocol::Training::start>(std::vector<protocol::RankEndpoint>{}));
  EXPECT_EQ(early.error().code, Errc::conflict);
  auto broken = cluster.assignment(spec, 1);
  broken.spec = "{";
  EXPECT_EQ(cluster.await(cluster.trainer(1).call<&protocol::Training::prepare>(broken)).error().code, Errc::malformed);
}

/// A training whose result cannot be tested would be for nothing.
TEST(Trainer, TestExamplesThatAreMissingAreFoundBeforeTheTraining) {
  const training::testing::Folder folder;
  folder.write("a.txt", std::string(2000, 'a'));
  auto spec = job("none");
  spec["model"] = {{"name", "gpt"}, {"params", {{"layers", 1}, {"heads", 1}, {"width", 8}}}};
  spec["dataset"] = {{"name", "text"},
                     {"path", folder / "a.txt"},
                     {"partition", "iid"},
                     {"params", {{"context", 64}, {"test_share", 0.01}}}};
  Cluster cluster(1);
  const auto prepared =
      cluster.await(cluster.trainer(0).call<&protocol::Training::prepare>(cluster.assignment(spec, 0)));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::malformed);
  EXPECT_NE(prepared.error().context.find("of which 20 are for testing"), std::string::npos)
      << prepared.error().message();
}

/// The loss of the last step is that of the model before it.
TEST(Trainer, ALastStepThatRuinsTheModelFailsTheJob) {
  auto spec = job("none");
  spec["training"]["optimizer"]["lr"] = 1e30;
  spec["training"]["max_steps"] = 1;
  Cluster cluster(1);
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  EXPECT_EQ(cluster.book.ends[0].outcome, Outcome::failed);
  EXPECT_NE(cluster.book.ends[0].cause.find("the model of step 1 has no finite loss on the test examples"),
            std::string::npos)
      << cluster.book.ends[0].cause;
}

}  // namespace
}  // namespace weir::actors
