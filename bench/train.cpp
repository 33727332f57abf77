#include "bench/train.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <utility>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/mesh.hpp"
#include "training/exchange/agreement.hpp"
#include "training/modes/mode.hpp"
#include "training/replica.hpp"

namespace weir::bench {
namespace {

using nlohmann::json;

constexpr std::uint32_t local_ranks = 4;
constexpr std::chrono::minutes join_deadline{2};

std::uint32_t world_of(const Place& place) {
  return place.peers.empty() ? local_ranks : static_cast<std::uint32_t>(place.peers.size());
}

/// What the ranks of a row have to do with each other.
enum class Link : std::uint8_t {
  none,       ///< they train at the same time
  barrier,    ///< each waits for all others at the end of a step: what synchronous training costs without any bytes
  gradients,  ///< they train together
};

struct Row {
  std::string name;
  Link link = Link::gradients;
  std::string compressor = "none";
  json params = json::object();
};

const std::vector<Row>& rows() {
  static const std::vector<Row> rows{{"compute alone", Link::none},
                                     {"compute in step", Link::barrier},
                                     {"none", Link::gradients},
                                     {"topk", Link::gradients, "topk", {{"ratio", 0.001}}},
                                     {"dgc", Link::gradients, "dgc", {{"ratio", 0.001}, {"warmup_epochs", 0}}}};
  return rows;
}

protocol::JobSpec spec_of(const Row& row, const TrainOptions& options) {
  protocol::JobSpec spec;
  spec.model = {options.model, options.model_params};
  spec.dataset.choice = {"synthetic", {{"train_examples", 16 * 1024}}};
  spec.dataset.partition = "iid";
  spec.training.mode = {"sync", json::object()};
  spec.training.epochs = 1e6;
  spec.training.max_steps = options.steps + options.warmup;
  spec.training.batch_size = options.batch_size;
  spec.training.optimizer = {"sgd", {{"lr", 0.01}, {"momentum", 0.9}}};
  spec.training.lr_schedule = {"constant", json::object()};
  spec.compression.compressor = {row.compressor, row.params};
  spec.exchange = {.topology = options.topology, .transport = "auto", .bucket_bytes = 25 << 20};
  return spec;
}

/// Keeps the records of the steps after the first `warmup`.
class Recorder final : public training::Progress {
 public:
  Recorder(collectives::Fabric& group, std::uint64_t warmup)
      : group_(group), warmup_(warmup), sent_before_(group.traffic().sent_bytes) {}
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const training::Replica&, const training::StepRecord& record) override {
    if (record.step == warmup_) sent_before_ = group_.traffic().sent_bytes;
    if (record.step > warmup_) records.push_back(record);
    return {};
  }
  double sent_bytes_per_step() const {
    const auto sent = static_cast<double>(group_.traffic().sent_bytes - sent_before_);
    return sent / static_cast<double>(std::max<std::size_t>(1, records.size()));
  }

  std::vector<training::StepRecord> records;

 private:
  collectives::Fabric& group_;
  const std::uint64_t warmup_;
  std::uint64_t sent_before_;
};

struct Measured {
  std::vector<training::StepRecord> records;
  double sent_bytes_per_step = 0;
};

Result<Measured> run_rank(const protocol::JobSpec& spec, std::uint64_t warmup, std::uint32_t rank,
                          collectives::Fabric& group) {
  at::set_num_threads(1);
  auto replica = training::Replica::make(spec, rank, group.size());
  if (!replica) return replica.error();
  if (auto joined = (*replica)->join(group); !joined) return joined.error();
  auto mode = training::modes().make("sync", nullptr);
  if (!mode) return mode.error();
  Recorder recorder(group, warmup);
  if (auto done = (*mode)->train(**replica, recorder); !done) return done.error();
  const double sent = recorder.sent_bytes_per_step();
  Measured measured{std::move(recorder.records), sent};
  replica->reset();
  group.close();
  return measured;
}

/// The same training of a rank by itself, without an exchange of gradients: the optimizer takes them as they are.
/// `barrier`: the group to wait for at the end of each step; null: nobody is waited for.
Result<Measured> run_alone(const protocol::JobSpec& spec, std::uint64_t warmup, collectives::Fabric* barrier) {
  at::set_num_threads(1);
  auto made = training::Replica::make(spec, 0, 1);
  if (!made) return made.error();
  training::Replica& replica = **made;
  replica.model->set_training(true);
  const auto parameters = replica.model->parameters();
  std::vector<training::Mean> means(parameters.size());
  Measured measured;
  while (replica.step < replica.length.steps_total) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& parameter : parameters) at::Tensor(parameter.tensor).mutable_grad().reset();
    const auto batch = replica.examples->batch(replica.sampler.examples(replica.step));
    const auto loss = at::cross_entropy_loss(replica.model->forward(batch.input), batch.target);
    (void)loss.item<float>();
    loss.backward();
    for (std::size_t i = 0; i < means.size(); ++i) means[i].tensor = parameters[i].tensor.grad();
    replica.optimizer->step(means, replica.learning_rate * replica.schedule->factor(replica.step));
    ++replica.step;
    if (barrier != nullptr) {
      if (auto all_there = training::expect_equal(*barrier, replica.step, "steps"); !all_there) {
        return all_there.error();
      }
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (replica.step <= warmup) continue;
    measured.records.push_back(
        {.step = replica.step, .seconds = taken.count(), .compute_seconds = taken.count(), .times = {}});
  }
  return measured;
}

Result<std::unique_ptr<collectives::Fabric>> join(collectives::Mesh& mesh, std::uint32_t rank,
                                                  const std::vector<collectives::Peer>& peers) {
  const collectives::Group group{.job_id = "bench",
                                 .attempt = 1,
                                 .secret = "bench",
                                 .rank = rank,
                                 .size = static_cast<std::uint32_t>(peers.size())};
  return mesh.join(group, peers, join_deadline);
}

/// Runs the row on every rank of this process, each on a thread, and returns the measurements of the first of them.
Result<Measured> run_row(const Row& row, const Place& place, const TrainOptions& options) {
  const auto spec = spec_of(row, options);
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < world_of(place); ++rank) {
    if (place.rank.value_or(rank) == rank) ranks.push_back(rank);
  }
  auto peers = place.peers;
  peers.resize(world_of(place));
  std::vector<std::unique_ptr<collectives::Mesh>> meshes;
  for (const auto rank : ranks) {
    const bool fixed = !place.peers.empty();
    auto mesh =
        fixed ? collectives::Mesh::bind(peers[rank].host, peers[rank].port) : collectives::Mesh::bind("127.0.0.1");
    if (!mesh) return mesh.error();
    if (!fixed) peers[rank] = {"127.0.0.1", (*mesh)->port()};
    meshes.push_back(std::move(*mesh));
  }
  std::vector<Result<Measured>> results(ranks.size(), Measured{});
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        auto group = join(*meshes[i], ranks[i], peers);
        if (!group) {
          results[i] = group.error();
          return;
        }
        if (row.link == Link::gradients) {
          results[i] = run_rank(spec, options.warmup, ranks[i], **group);
          return;
        }
        results[i] = run_alone(spec, options.warmup, row.link == Link::barrier ? group->get() : nullptr);
        (*group)->close();
      });
    }
  }
  for (const auto& result : results) {
    if (!result) return result.error();
  }
  return results.front();
}

template <class Projection>
double quantile(const std::vector<training::StepRecord>& records, double share, Projection value) {
  std::vector<double> values;
  for (const auto& record : records) values.push_back(value(record));
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

json metrics_of(const Measured& measured, double limit) {
  const auto& records = measured.records;
  const auto p50 = [&](auto value) { return quantile(records, 0.5, value); };
  const double step = p50([](const auto& r) { return r.seconds; });
  return {{"step_seconds_p50", step},
          {"step_seconds_p99", quantile(records, 0.99, [](const auto& r) { return r.seconds; })},
          {"over_compute_alone", limit > 0 ? step / limit : 1.0},
          {"encode_seconds_p50", p50([](const auto& r) { return r.times.encode; })},
          {"exchange_seconds_p50", p50([](const auto& r) { return r.times.exchange; })},
          {"decode_seconds_p50", p50([](const auto& r) { return r.times.decode; })},
          {"wait_seconds_p50", p50([](const auto& r) { return r.times.wait; })},
          {"sent_bytes_per_step", measured.sent_bytes_per_step},
          {"dense_bytes_per_step", records.front().dense_bytes}};
}

void print(const TrainOptions& options, const Place& place, const Row& row, const json& metrics) {
  if (options.common.json) {
    const json line{{"bench", "train"},
                    {"name", row.name},
                    {"case",
                     {{"model", options.model},
                      {"model_params", options.model_params},
                      {"topology", options.topology},
                      {"ranks", world_of(place)},
                      {"batch_size", options.batch_size},
                      {"params", row.params},
                      {"threads", 1},
                      {"network", place.peers.empty() ? "loopback" : "given peers"},
                      {"device", "cpu"}}},
                    {"metrics", metrics}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    const auto ms = [&](const char* name) { return 1e3 * metrics.at(name).get<double>(); };
    std::printf("%-16s %8.2f ms %8.2f ms %7.2fx %8.2f %8.2f %8.2f %8.2f ms %12.0f B\n", row.name.c_str(),
                ms("step_seconds_p50"), ms("step_seconds_p99"), metrics.at("over_compute_alone").get<double>(),
                ms("encode_seconds_p50"), ms("exchange_seconds_p50"), ms("decode_seconds_p50"), ms("wait_seconds_p50"),
                metrics.at("sent_bytes_per_step").get<double>());
  }
  std::fflush(stdout);
}

}  // namespace

int train(const TrainOptions& options) {
  const auto place = place_of(options.place);
  if (!place) {
    std::fprintf(stderr, "%s\n", place.error().context.c_str());
    return 2;
  }
  const auto* topology = collectives::find_topology(options.topology);
  if (options.topology != training::AutoPlan::name && (topology == nullptr || !topology->fits(world_of(*place)))) {
    std::fprintf(stderr, "--topology %s: there is none of that name for %u ranks\n", options.topology.c_str(),
                 world_of(*place));
    return 2;
  }
  const std::regex filter(options.common.filter);
  if (!options.common.json) {
    std::printf("%s, %u ranks, batch %llu\n%-16s %11s %11s %8s %8s %8s %8s %11s %14s\n", options.model.c_str(),
                world_of(*place), static_cast<unsigned long long>(options.batch_size), "", "step p50", "p99", "/ alone",
                "encode", "exchange", "decode", "wait", "sent per step");
  }
  double limit = 0;
  for (const auto& row : rows()) {
    // Every other row is compared with the first one.
    if (row.link != Link::none && !std::regex_search(row.name, filter)) continue;
    const auto measured = run_row(row, *place, options);
    if (!measured) {
      std::fprintf(stderr, "%s: %s\n", row.name.c_str(), measured.error().message().c_str());
      return 1;
    }
    const auto metrics = metrics_of(*measured, limit);
    if (row.link == Link::none) limit = metrics.at("step_seconds_p50").get<double>();
    print(options, *place, row, metrics);
  }
  return 0;
}

}  // namespace weir::bench
