// Modes x topologies x compressors x memories: each combination trains for ten steps, or `validate` refuses it and says
// why. As a part of all tests, each pair of two of them is tried that any combination allows; with WEIR_WHOLE_PRODUCT
// in the environment (`make product`), all are. Beside it what else a job can choose: each optimizer and aggregation in
// each mode, and one worker.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/parameter_server.hpp"
#include "actors/state_server.hpp"
#include "actors/trainer.hpp"
#include "base/errc.hpp"
#include "catalog_settings.hpp"
#include "collectives/transports/in_process.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/roles.hpp"
#include "training/job_parts.hpp"
#include "training/modes/mode.hpp"

namespace weir::worker {
namespace {

using nlohmann::json;
using testing::all;
using testing::settings_of;

constexpr std::uint64_t steps = 10;
/// Far more than any job here takes: it is for those that would never end.
constexpr std::chrono::minutes patience{3};

struct Cell {
  std::string mode, topology, compressor, memory;

  std::string name() const { return mode + " over " + topology + " with " + compressor + " and " + memory; }
};

/// The parameters with which a mode does something of note within ten steps.
json params_of(const json& mode) {
  json params = json::object();
  const json& properties = mode.at("params").at("properties");
  if (properties.contains("period")) params["period"] = 3;
  if (properties.contains("fragments")) params.update({{"period", 4}, {"fragments", 2}, {"delay", 1}});
  if (properties.contains("servers")) params["servers"] = 2;
  return params;
}

/// Whether what workers exchange is put into buckets.
bool in_buckets(const json& mode, const json& compressor) {
  const json& exchanges = mode.at("exchanges");
  if (exchanges == "models") return !compressor.at("traits").value("lossless", false);
  return exchanges != "nothing" && exchanges != "pushes";
}

json job(const json& mode, const json& topology, const json& compressor, const json& params, const json& memory) {
  const std::uint32_t odd_or_even = topology.at("workers") == "any" ? 3 : 4;
  json spec{
      {"model", {{"name", "mlp"}, {"params", {{"hidden", 8}}}}},
      {"dataset",
       {{"name", "synthetic"},
        {"params", {{"height", 8}, {"width", 8}, {"classes", 4}, {"train_examples", 64}, {"test_examples", 8}}}}},
      {"training", {{"mode", mode.at("name")}, {"params", params_of(mode)}, {"batch_size", 2}, {"max_steps", steps}}},
      {"compression", {{"name", compressor.at("name")}, {"params", params}, {"memory", memory}}},
      {"exchange", {{"topology", topology.at("name")}}},
      {"resources", {{"workers", mode.at("exchanges") == "nothing" ? 1 : odd_or_even}}}};
  if (memory.is_null()) spec["compression"].erase("memory");
  if (in_buckets(mode, compressor)) spec["exchange"]["bucket_bytes"] = 1024;
  return spec;
}

/// What the ranks of a job tell.
class Watch final : public training::Progress {
 public:
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const training::Replica& replica, const training::StepRecord& record) override {
    if (!std::isfinite(record.loss)) return Error{Errc::internal, "the loss is not finite"};
    step_ = record.step;
    if (record.step == steps) parameters_ = training::hash_of(replica.model->parameters());
    return {};
  }
  Result<void> keep(std::uint64_t, Bytes share) override {
    kept_ = !share.empty();
    return {};
  }
  Result<void> evaluate(std::uint64_t, Bytes model) override {
    evaluated_ = !model.empty();
    return {};
  }

  std::uint64_t step_ = 0;
  std::uint64_t parameters_ = 0;  ///< hash after the last step
  bool kept_ = false;
  bool evaluated_ = false;
};

/// Ends a group that takes forever.
class Patience {
 public:
  explicit Patience(collectives::Fabric& fabric)
      : thread_([this, &fabric](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          ended_.wait_for(lock, stop, patience, [] { return false; });
          if (!stop.stop_requested()) fabric.abort({Errc::deadline_exceeded, "it does not end"});
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

actors::MakeRole maker_of(protocol::Role role) {
  switch (role) {
    case protocol::Role::worker: return actors::trainer_role();
    case protocol::Role::server: return actors::parameter_server_role();
    case protocol::Role::state_server: return actors::state_server_role();
  }
  return {};
}

/// Trains in threads of this process. Returns why it did not do all it should, or nothing.
std::string run(const protocol::JobSpec& spec, bool equal_models) {
  const auto members = protocol::members_of(spec.resources.groups);
  const auto workers = protocol::count_of(spec.resources.groups, protocol::Role::worker);
  auto group = collectives::in_process_group(members, 3, {.ranks_per_host = 2});
  std::vector<Watch> watches(members);
  std::vector<std::string> problems(members);
  {
    const Patience limit(*group.front());
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      threads.emplace_back([&, rank] {
        const auto work = [&]() -> Result<bool> {
          const auto of_rank = protocol::role_of_rank(spec.resources.groups, rank).role;
          const protocol::Assignment place{.job_id = {},
                                           .spec = {},
                                           .rank = rank,
                                           .world = workers,
                                           .members = members,
                                           .role = of_rank,
                                           .group_secret = {},
                                           .listen_host = {}};
          auto role = maker_of(of_rank)(spec, place);
          if (!role) return role.error();
          if (auto joined = (*role)->join(*group[rank]); !joined) return joined.error();
          return (*role)->run(watches[rank]);
        };
        auto finished = work();
        if (!finished) group[rank]->abort(finished.error());
        if (finished && !*finished) finished = Error{Errc::internal, "it has stopped early"};
        if (finished && !watches[rank].kept_) finished = Error{Errc::internal, "there is no checkpoint"};
        if (!finished) problems[rank] = "rank " + std::to_string(rank) + ": " + finished.error().message() + "\n";
        if (finished) group[rank]->close();
      });
    }
  }
  std::string all_problems;
  bool evaluated = false;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    all_problems += problems[rank];
    evaluated = evaluated || watches[rank].evaluated_;
    if (equal_models && rank < workers && watches[rank].parameters_ != watches.front().parameters_) {
      all_problems += "rank " + std::to_string(rank) + " has another model than rank 0\n";
    }
  }
  if (!evaluated) all_problems += "there is no model to evaluate\n";
  return all_problems;
}

/// Chooses combinations such that each pair of values of two axes is among them, if any combination has it.
class Pairs {
 public:
  bool adds(const Cell& cell) const {
    return pairs_of(cell, [&](const std::string& pair) { return !seen_.contains(pair); });
  }
  void add(const Cell& cell) {
    pairs_of(cell, [&](const std::string& pair) {
      seen_.insert(pair);
      return false;
    });
  }

 private:
  template <class F>
  static bool pairs_of(const Cell& cell, const F& f) {
    const std::string values[] = {cell.topology, cell.compressor, cell.memory};  // in one mode
    return f("t" + values[0] + "/" + values[1]) || f("m" + values[0] + "/" + values[2]) ||
           f("c" + values[1] + "/" + values[2]);
  }

  std::set<std::string> seen_;
};

const json& mode_named(const std::string& name) {
  return *std::ranges::find_if(all().at("modes"), [&](const json& it) { return it.at("name") == name; });
}

/// Whether all workers end with the same bits.
bool has_common_model(const json& mode) {
  return mode.at("exchanges") == "gradients" || mode.at("exchanges") == "differences";
}

class Product : public ::testing::TestWithParam<std::string> {};

TEST_P(Product, RunsOrIsRefusedWithAReason) {
  const bool whole = std::getenv("WEIR_WHOLE_PRODUCT") != nullptr;
  const json& mode = mode_named(GetParam());
  const bool equal_models = has_common_model(mode);
  json memories{nullptr};
  for (const json& memory : all().at("memories")) memories.push_back(memory.at("name"));
  Pairs tried;
  std::size_t ran = 0;
  std::size_t refused = 0;
  for (const json& compressor : all().at("compressors")) {
    for (const json& params : settings_of(compressor)) {
      for (const json& topology : all().at("topologies")) {
        for (const json& memory : memories) {
          json spec = job(mode, topology, compressor, params, memory);
          const Cell cell{mode.at("name"), topology.at("name"),
                          compressor.at("name").get<std::string>() + params.dump(), memory.dump()};
          const auto problems = protocol::normalize_job_spec(spec, all());
          for (const auto& problem : problems) {
            EXPECT_TRUE(problem.pointer.starts_with('/')) << cell.name() << ": " << problem.pointer;
            EXPECT_GT(problem.message.size(), 20U) << cell.name() << ": " << problem.message;
          }
          refused += problems.empty() ? 0 : 1;
          if (!problems.empty() || (!whole && !tried.adds(cell))) continue;
          tried.add(cell);
          const auto typed = protocol::parse_job_spec(spec);
          ASSERT_TRUE(typed) << cell.name() << ": " << typed.error().message();
          EXPECT_EQ(run(*typed, equal_models), "") << cell.name();
          ++ran;
          if (whole && ran % 500 == 0) std::cout << ran << " have run, now " << cell.name() << std::endl;
        }
      }
    }
  }
  std::cout << ran << " combinations have run, " << refused << " are refused\n";
  EXPECT_GT(ran, 0U);
  EXPECT_GT(refused, 0U);
}

/// Runs a job, unless `validate` refuses it. Returns whether it has run.
bool runs_or_is_refused(json spec, const json& mode, const std::string& what) {
  if (!protocol::normalize_job_spec(spec, all()).empty()) return false;
  const auto typed = protocol::parse_job_spec(spec);
  EXPECT_EQ(typed ? run(*typed, has_common_model(mode)) : typed.error().message(), "") << what;
  return true;
}

TEST_P(Product, RunsWithEveryOptimizer) {
  const json& mode = mode_named(GetParam());
  for (const json& optimizer : all().at("optimizers")) {
    json spec = job(mode, all().at("topologies").front(), all().at("compressors").front(), json::object(), nullptr);
    spec["training"]["optimizer"] = {{"name", optimizer.at("name")}, {"lr", 0.001}};
    EXPECT_TRUE(runs_or_is_refused(spec, mode, optimizer.at("name"))) << optimizer.at("name");
  }
}

/// As few workers as a job has if it does not say how many: everything over one topology, and every topology.
TEST_P(Product, RunsWithOneWorker) {
  const json& mode = mode_named(GetParam());
  std::size_t ran = 0;
  for (const json& compressor : all().at("compressors")) {
    for (const json& topology : all().at("topologies")) {
      const bool first = topology == all().at("topologies").front() || compressor == all().at("compressors").front();
      if (!first && compressor.at("name") != "topk" && compressor.at("name") != "qsgd") continue;
      json spec = job(mode, topology, compressor, json::object(), nullptr);
      spec["resources"]["workers"] = 1;
      if (mode.at("params").at("properties").contains("backup_workers")) {
        json without = spec;
        EXPECT_FALSE(protocol::normalize_job_spec(without, all()).empty()) << "no gradient is left for a step";
        spec["training"]["params"]["backup_workers"] = 0;
      }
      const std::string what = topology.at("name").get<std::string>() + " " + compressor.at("name").get<std::string>();
      ran += runs_or_is_refused(spec, mode, what) ? 1 : 0;
    }
  }
  EXPECT_GT(ran, 0U);
}

/// Of models over one topology: there they travel as in modes that exchange differences.
TEST_P(Product, RunsWithEveryAggregationOfGradientsAndModels) {
  const json& mode = mode_named(GetParam());
  std::size_t ran = 0;
  for (const json& topology : all().at("topologies")) {
    const bool first = topology == all().at("topologies").front();
    for (const json& compressor : all().at("compressors")) {
      if (compressor.at("name") != "none" && compressor.at("name") != "topk") continue;
      for (const std::string aggregation : {"mean", "sum", "min", "max", "weighted"}) {
        for (const std::string apply_to : {"gradients", "models"}) {
          if (apply_to == "models" ? !first : aggregation == "mean") continue;
          json spec = job(mode, topology, compressor, json::object(), nullptr);
          spec["compression"].update({{"aggregation", aggregation}, {"apply_to", apply_to}});
          spec["training"]["optimizer"] = {{"lr", 0.01}};
          const std::string what = topology.at("name").get<std::string>() + " " + spec.at("compression").dump();
          ran += runs_or_is_refused(spec, mode, what) ? 1 : 0;
        }
      }
    }
  }
  // Neighbours mix with the weights of their graph, servers apply one gradient after the other, and one worker has
  // nothing to aggregate.
  EXPECT_EQ(ran > 0, has_common_model(mode));
}

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  for (const json& mode : all().at("modes")) names.push_back(mode.at("name"));
  return names;
}

INSTANTIATE_TEST_SUITE_P(Modes, Product, ::testing::ValuesIn(mode_names()),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace weir::worker
