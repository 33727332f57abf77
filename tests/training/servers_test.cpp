// Jobs with parameter servers, from end to end, in threads of one process.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "protocol/safetensors.hpp"
#include "served_job.hpp"
#include "training/counts.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/messenger.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;
using testing::served_job;
using testing::ServedJob;
using testing::small_job;
using testing::Told;

/// The parameters in a file with a model.
std::vector<at::Tensor> parameters_in(const Segment& file, const Model& model) {
  const auto read = protocol::read_safetensors(file).value();
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : model.parameters()) {
    tensors.push_back(tensors_under(read, "model." + parameter.name).at(0).tensor);
  }
  return tensors;
}

/// The model that a sync job ends with.
std::vector<at::Tensor> model_of_sync(protocol::JobSpec spec, std::uint32_t workers) {
  spec.training.mode = {"sync", {}};
  auto group = collectives::in_process_group(workers);
  std::vector<at::Tensor> parameters;
  run_ranks(workers, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, workers).value();
    replica->join(*group[rank]).value();
    Told told;
    ASSERT_TRUE(replica->mode->train(*replica, told).value());
    if (rank == 0) {
      for (const auto& parameter : replica->model->parameters())
        parameters.push_back(parameter.tensor.detach().clone());
    }
    replica.reset();
    group[rank]->close();
  });
  return parameters;
}

double mean_of(std::span<const StepRecord> records) {
  double sum = 0;
  for (const auto& record : records) sum += record.loss;
  return sum / static_cast<double>(records.size());
}

/// Of the job: a single worker may come late, when the others have learned already, or be done early.
void expect_learned(const ServedJob& job, std::uint32_t workers) {
  double first = 0;
  double last = std::numeric_limits<double>::infinity();
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const std::span<const StepRecord> records = job.told[rank]->records;
    if (records.size() < 4) continue;
    first = std::max(first, mean_of(records.first(2)));
    last = std::min(last, mean_of(records.last(4)));
  }
  EXPECT_LT(last, 0.7 * first);
}

/// What every server has of each worker's copy is what that worker has.
void expect_copies(const ServedJob& job, std::uint32_t workers) {
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const auto parameters = job.replicas[rank]->model->parameters();
    for (const auto& server : job.servers) {
      const auto copies = server->shard->copies_of(rank);
      for (std::size_t i = 0; i < copies.size(); ++i) {
        EXPECT_TRUE(copies[i].tensor.equal(parameters[server->shard->indices()[i]].tensor)) << copies[i].name;
      }
    }
  }
}

class Servers : public ::testing::TestWithParam<std::uint32_t> {};
// The model has four tensors: of six servers, two have none.
INSTANTIATE_TEST_SUITE_P(Count, Servers, ::testing::Values(1U, 2U, 3U, 4U, 6U));

TEST_P(Servers, OneWorkerAloneTrainsAsInSync) {
  for (const std::string mode : {"async", "ssp", "backup"}) {
    nlohmann::json params{{"servers", GetParam()}};
    if (mode == "backup") params["backup_workers"] = 0;
    const auto spec = served_job(mode, params);
    ServedJob job(spec, 1);
    job.run();
    const auto expected = model_of_sync(spec, 1);
    const auto steps = job.servers[0]->length.steps_total;
    const auto models = parameters_in(job.first_server().models.at(steps), *job.servers[0]->model);
    for (std::size_t p = 0; p < expected.size(); ++p) EXPECT_TRUE(models[p].equal(expected[p])) << mode << " " << p;
    EXPECT_TRUE(*job.results[0]);
    EXPECT_TRUE(*job.results[1]);
  }
}

TEST_P(Servers, WithoutSlackTheModelIsThatOfSync) {
  // Plain SGD: the sum of what single pushes change is what their mean changes.
  for (const auto& [mode, params] : {std::pair<std::string, nlohmann::json>{"ssp", {{"staleness", 0}}},
                                     std::pair<std::string, nlohmann::json>{"backup", {{"backup_workers", 0}}}}) {
    auto spec = served_job(mode, params);
    spec.training.mode.params["servers"] = GetParam();
    spec.training.optimizer = {"sgd", {{"lr", 0.05}, {"momentum", 0}}};
    constexpr std::uint32_t workers = 3;
    ServedJob job(spec, workers);
    job.run();
    const auto expected = model_of_sync(spec, workers);
    const auto steps = job.servers[0]->length.steps_total;
    const auto models = parameters_in(job.first_server().models.at(steps), *job.servers[0]->model);
    for (std::size_t p = 0; p < expected.size(); ++p) {
      EXPECT_TRUE(models[p].allclose(expected[p], 1e-4, 1e-5)) << mode << " " << p;
    }
    expect_copies(job, workers);
  }
}

class Learning : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};
INSTANTIATE_TEST_SUITE_P(Modes, Learning,
                         ::testing::Combine(::testing::Values("async", "ssp", "backup"),
                                            ::testing::Values("none", "fp16", "int8", "qsgd", "topk", "dgc",
                                                              "randomk")));

TEST_P(Learning, LossFallsAndCopiesAreTheSameBitsOnBothEnds) {
  const auto& [mode, compressor] = GetParam();
  auto spec = served_job(mode, {{"servers", 2}}, compressor);
  if (compressor == "fp16" || compressor == "int8") spec.compression.compressor.params = {};
  spec.training.epochs = 6;
  constexpr std::uint32_t workers = 3;
  ServedJob job(spec, workers);
  job.run();
  expect_learned(job, workers);
  expect_copies(job, workers);
  // Every push is counted once, on all servers.
  for (const auto& server : job.servers) {
    const auto& counts = server->counts;
    const auto pushes = std::accumulate(counts.clocks.begin(), counts.clocks.end(), std::uint64_t{0});
    EXPECT_EQ(counts.applied, job.servers[0]->counts.applied);
    EXPECT_EQ(server->step(), server->length.steps_total);
    std::uint64_t applied = 0;
    const auto place = static_cast<std::size_t>(&server - job.servers.data());
    for (const auto& record : job.told[workers + place]->served_records) applied += record.applied;
    EXPECT_EQ(applied, server->length.steps_total * server->pushes_per_step) << "later ones are in no step";
    if (mode == "backup") {
      std::uint64_t dropped = 0;
      for (const auto& record : job.told[workers]->served_records) dropped += record.dropped;
      EXPECT_LE(counts.applied + dropped, pushes);
    } else {
      EXPECT_EQ(counts.applied, pushes);
    }
  }
}

TEST(ServedJobs, GradientsThatNobodyCouldDecodeAloneAreRefused) {
  const auto refusal = [](const std::string& compressor, const std::string& memory) {
    auto spec = served_job("async", {{"servers", 1}});
    spec.compression.compressor = {compressor, {}};
    spec.compression.memory = {memory, {}};
    const auto worker = Replica::make(spec, 0, 2, 1);
    const auto server = servers::Server::make(spec, {0, 2, 1});
    EXPECT_EQ(worker.has_value(), server.has_value());
    return worker ? std::string("accepted") : worker.error().message();
  };
  EXPECT_NE(refusal("powersgd", "").find("several passes"), std::string::npos) << refusal("powersgd", "");
  EXPECT_NE(refusal("signsgd", "none").find("no majority"), std::string::npos) << refusal("signsgd", "none");
  EXPECT_NE(refusal("topk", "ef21").find("mean of all workers"), std::string::npos) << refusal("topk", "ef21");
  EXPECT_NE(refusal("randomk", "powersgd").find("mean of all workers"), std::string::npos)
      << refusal("randomk", "powersgd");
  EXPECT_EQ(refusal("topk", "residual"), "accepted");
  auto spec = served_job("backup", {{"backup_workers", 2}});
  EXPECT_EQ(Replica::make(spec, 0, 2, 1).error().code, Errc::invalid_argument);
}

TEST(ServedJobs, ResumingLosesNoUpdate) {
  for (const std::string mode : {"async", "ssp", "backup"}) {
    auto spec = served_job(mode, {{"servers", 2}}, "topk");
    spec.checkpoint_every_steps = 4;
    constexpr std::uint32_t workers = 3;
    ServedJob whole(spec, workers);
    whole.run();
    const auto checkpoint = whole.checkpoint(8);
    ServedJob resumed(spec, workers);
    resumed.prepare(checkpoint);
    std::vector<servers::Counts> before;
    for (const auto& server : resumed.servers) {
      before.push_back(server->counts);
      const auto own = protocol::rank_prefix(server->place.rank());
      const auto saved = tensors_under(protocol::read_safetensors(checkpoint).value(), own + "pushed");
      ASSERT_EQ(saved.size(), 1u);
      EXPECT_TRUE(server->shard->save_pushed().tensor.equal(saved[0].tensor)) << mode;
    }
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      // What a server has of a worker's copy comes from that worker's share.
      const auto parameters = resumed.replicas[rank]->model->parameters();
      const auto copies = resumed.servers[1]->shard->copies_of(rank);
      EXPECT_TRUE(copies[0].tensor.equal(parameters[resumed.servers[1]->shard->indices()[0]].tensor));
    }
    run_ranks(resumed.ranks(), [&](std::uint32_t rank) { resumed.run_rank(rank); });
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto& after = resumed.servers[i]->counts;
      EXPECT_EQ(before[i].applied / resumed.servers[i]->pushes_per_step, 8u) << mode;
      std::uint64_t pushed = 0;
      for (std::uint32_t rank = 0; rank < workers; ++rank) {
        pushed += resumed.told[rank]->records.size();
        EXPECT_EQ(before[i].clocks[rank] + resumed.told[rank]->records.size(), after.clocks[rank]) << mode;
      }
      EXPECT_TRUE(mode == "backup" || before[i].applied + pushed == after.applied) << mode;
      EXPECT_EQ(resumed.servers[i]->step(), resumed.servers[i]->length.steps_total);
    }
    expect_copies(resumed, workers);
  }
}

TEST(ServedJobs, AResumedJobWithoutChanceEndsWithTheSameBytes) {
  auto spec = served_job("backup", {{"servers", 2}, {"backup_workers", 0}}, "dgc");
  spec.checkpoint_every_steps = 6;
  constexpr std::uint32_t workers = 2;
  ServedJob whole(spec, workers);
  whole.run();
  ServedJob resumed(spec, workers);
  resumed.run(whole.checkpoint(6));
  const auto steps = whole.servers[0]->length.steps_total;
  for (std::uint32_t rank = 0; rank < whole.ranks(); ++rank) {
    EXPECT_TRUE(
        std::ranges::equal(whole.told[rank]->shares.at(steps).bytes(), resumed.told[rank]->shares.at(steps).bytes()))
        << rank;
  }
}

TEST(ServedJobs, AStopIsSavedAndToldToAll) {
  auto spec = served_job("ssp", {{"servers", 2}, {"staleness", 1}});
  ServedJob job(spec, 3);
  job.first_server().stop_after = 5;
  job.run();
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    EXPECT_FALSE(*job.results[rank]) << rank;
    ASSERT_EQ(job.told[rank]->shares.size(), 1u) << rank;
    EXPECT_GE(job.told[rank]->shares.begin()->first, 5u);
    EXPECT_LT(job.told[rank]->shares.begin()->first, job.servers[0]->length.steps_total);
  }
  job.checkpoint(job.told[0]->shares.begin()->first);
}

/// The beginning of a job with two workers, of which one has made three pushes and the other one: two steps.
Segment uneven_checkpoint(const protocol::JobSpec& spec) {
  const std::vector<std::uint64_t> pushes{3, 1};
  std::vector<Segment> shares;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto replica = Replica::make(spec, rank, 2, 1).value();
    const std::vector<NamedTensor> own{saved_counts(std::span(pushes).subspan(rank, 1))};
    replica->mode->restore(*replica, {}, own).value();
    replica->step = 2;
    shares.push_back(Segment::own(replica->save().value()));
  }
  const auto server = servers::Server::make(spec, {0, 2, 1}).value();
  server->counts = {.applied = 4, .version = 4, .clocks = pushes, .answered_at = {4, 4}};
  shares.push_back(Segment::own(server->save().value()));
  return Segment::own(protocol::join_checkpoint(shares).value().whole());
}

/// The first worker has to wait for the second one here, whose next push alone completes no step.
TEST(ServedJobs, AStopWaitsForAStepThatNoCheckpointHas) {
  const auto spec = served_job("ssp", {{"servers", 1}, {"staleness", 0}});
  ServedJob job(spec, 2);
  job.first_server().stops_once_begun = true;
  job.run(uneven_checkpoint(served_job("ssp", {{"servers", 1}, {"staleness", 2}})));
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    EXPECT_FALSE(*job.results[rank]) << rank;
    ASSERT_EQ(job.told[rank]->shares.size(), 1u) << rank;
    EXPECT_EQ(job.told[rank]->shares.begin()->first, 3u) << rank << ": step 2 is kept already";
  }
  const auto kept = servers::Server::make(spec, job.place(2)).value();
  const auto checkpoint = job.checkpoint(job.told[0]->shares.begin()->first);
  kept->restore(protocol::testing::part_of(checkpoint, 2, protocol::Role::server)).value();
  EXPECT_EQ(kept->counts.clocks, (std::vector<std::uint64_t>{3, 3}));
  EXPECT_EQ(kept->counts.applied, 4 + job.told[0]->records.size() + job.told[1]->records.size());
}

TEST(ServedJobs, ModelsAreEvaluatedWithThePartsOfAllServers) {
  auto spec = served_job("async", {{"servers", 3}});
  spec.evaluate_every_steps = 3;
  ServedJob job(spec, 2);
  job.run();
  const auto& models = job.first_server().models;
  const auto steps = job.servers[0]->length.steps_total;
  EXPECT_GE(models.size(), 2u);
  ASSERT_TRUE(models.contains(steps));
  const auto evaluated = parameters_in(models.at(steps), *job.servers[0]->model);
  for (const auto& server : job.servers) {
    for (std::size_t i = 0; i < server->shard->indices().size(); ++i) {
      EXPECT_TRUE(evaluated[server->shard->indices()[i]].equal(server->shard->tensors()[i].tensor));
    }
  }
}

/// A job whose model has batch norm.
protocol::JobSpec with_statistics(protocol::JobSpec spec) {
  spec.model = {"resnet20", {{"depth", 8}, {"width", 4}}};
  spec.dataset.choice = {
      "synthetic",
      {{"height", 8}, {"width", 8}, {"channels", 3}, {"classes", 4}, {"train_examples", 96}, {"test_examples", 8}}};
  spec.training.batch_size = 8;
  return spec;
}

TEST(ServedJobs, RunningStatisticsAreTheMeanOfTheWorkers) {
  auto spec = with_statistics(served_job("async", {{"servers", 2}}));
  spec.training.max_steps = 2;
  ServedJob job(spec, 2);
  job.run();
  const auto buffers = job.servers[0]->model->buffers();
  std::size_t averaged = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].tensor.scalar_type() != at::kFloat) continue;
    const auto mean = (job.replicas[0]->model->buffers()[i].tensor + job.replicas[1]->model->buffers()[i].tensor) / 2;
    EXPECT_TRUE(buffers[i].tensor.allclose(mean, 1e-4, 1e-6)) << buffers[i].name;
    ++averaged;
  }
  EXPECT_GT(averaged, 0u);
}

/// Nobody begins a batch before all have pushed, so that it is known whose statistics are there at a step.
TEST(ServedJobs, EvaluationsHaveTheStatisticsOfTheNewestPushes) {
  auto spec = with_statistics(served_job("ssp", {{"servers", 1}, {"staleness", 0}}));
  spec.training.max_steps = 3;
  spec.evaluate_every_steps = 1;
  constexpr std::uint32_t workers = 3;
  ServedJob job(spec, workers);
  std::vector<std::vector<std::vector<at::Tensor>>> statistics(workers);  // by worker, by push
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    job.told[rank]->on_step = [&of_worker = statistics[rank]](const Replica& replica, const StepRecord&) {
      std::vector<at::Tensor> buffers;
      for (const auto& buffer : replica.model->buffers()) buffers.push_back(buffer.tensor.clone());
      of_worker.push_back(std::move(buffers));
      return Result<void>();
    };
  }
  job.run();
  const auto buffers = job.servers[0]->model->buffers();
  std::size_t compared = 0;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto file = protocol::read_safetensors(job.first_server().models.at(step)).value();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].tensor.scalar_type() != at::kFloat) continue;
      const auto of = [&, i](std::uint32_t rank) { return statistics[rank].at(step - 1)[i]; };
      const at::Tensor evaluated = tensors_under(file, "model." + buffers[i].name).at(0).tensor;
      EXPECT_TRUE(evaluated.allclose((of(0) + of(1) + of(2)) / 3, 1e-4, 1e-6)) << step << " " << buffers[i].name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0u);
}

/// A server without tensors that sends its part of the first evaluation only when the second one is due, of which it is
/// to hear too. The third would be after the end.
TEST(ServedJobs, AnEvaluationThatFallsDueDuringAnotherIsNotForgotten) {
  using servers::Kind;
  constexpr std::uint32_t workers = 2;
  constexpr std::uint64_t every = 10;
  auto spec = served_job("async", {{"servers", 6}});
  spec.evaluate_every_steps = every;
  spec.training.max_steps = 3 * every - 1;
  ServedJob job(spec, workers);
  job.prepare();
  const std::uint32_t last = job.ranks() - 1;
  ASSERT_TRUE(job.servers.back()->shard->indices().empty());
  std::size_t evaluations = 0;
  const auto serve_late = [&] {
    servers::Messenger messenger(*job.group[last], {.bytes_max = 1 << 20});
    bool owes_part = false;
    for (bool ends = false; !ends;) {
      const auto message = messenger.next();
      ASSERT_TRUE(message) << message.error().message();
      const auto kind = servers::kind_of(message->about).value();
      servers::Reader body(message->body);
      if (kind == Kind::wants_part) {
        ++evaluations;
        owes_part = evaluations == 1;
        if (!owes_part) messenger.send(workers, servers::subject(Kind::part, 0), {});
      } else if (kind == Kind::push) {
        const auto push = body.push().value();
        if (owes_part && push.step >= 2 * every) {
          messenger.send(workers, servers::subject(Kind::part, 0), {});
          owes_part = false;
        }
        Bytes answer;
        servers::write(answer, servers::Answer{.clock = push.clock});
        messenger.send(message->from, servers::subject(Kind::answer, 0), std::move(answer));
      } else if (kind == Kind::rest) {
        ends = (body.rest().value().flags & servers::Rest::end) != 0;
        messenger.send(workers, servers::subject(Kind::rested, 0), {});
      }
    }
    ASSERT_TRUE(messenger.flush());
  };
  run_ranks(job.ranks(), [&](std::uint32_t rank) {
    if (rank != last) return job.run_rank(rank);
    serve_late();
    job.group[rank]->close();
  });
  for (std::uint32_t rank = 0; rank < last; ++rank) EXPECT_TRUE(job.results[rank]) << rank;
  EXPECT_EQ(evaluations, 2u);
}

TEST(ServedJobs, SamplesOfGradientsThatComeTooLateDoNotCount) {
  constexpr std::uint32_t workers = 4;
  auto spec = served_job("backup", {{"servers", 2}, {"backup_workers", 2}});
  ServedJob job(spec, workers);
  job.run();
  std::uint64_t samples = 0;
  std::uint64_t pushes = 0;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    for (const auto& record : job.told[rank]->records) samples += record.samples;
    pushes += job.told[rank]->records.size();
  }
  const auto applied = job.servers[0]->counts.applied;
  EXPECT_GT(pushes, applied) << "of the first four, two come too late";
  EXPECT_EQ(samples, applied * spec.training.samples_per_step());
}

TEST(ServedJobs, AServerThatIsBusyMayBeToldOfManyWhoAreLate) {
  constexpr std::uint32_t workers = 8;
  constexpr std::uint32_t backups = 6;
  ServedJob job(served_job("backup", {{"servers", 2}, {"backup_workers", backups}}), workers);
  job.prepare();
  const auto& second = *job.group[workers + 1];
  const auto told = [&] { return second.traffic_with(workers).received_bytes; };
  // How to begin, whose gradients make the first version, and the name of each of the others.
  constexpr std::uint64_t header = collectives::Communicator::frame_header_bytes;
  const std::uint64_t all = told() + header + sizeof(servers::Rest) + header + 3 * 8 + backups * (header + 2 * 8);
  bool waited = false;
  job.told[workers + 1]->on_served = [&](const ServedRecord&) {
    if (std::exchange(waited, true)) return;
    while (told() < all && !second.lost_rank() && !job.group[0]->ended_by_another()) std::this_thread::yield();
  };
  run_ranks(job.ranks(), [&](std::uint32_t rank) { job.run_rank(rank); });
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    EXPECT_TRUE(job.results[rank]) << "rank " << rank << ": " << job.results[rank].error().message();
  }
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace weir::training
