#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mode_runs.hpp"
#include "tests/protocol/part_of.hpp"
#include "training/job_parts.hpp"
#include "training/modes/esync.hpp"
#include "training/state_server/state_server.hpp"

namespace weir::training::testing {

/// Local steps of a round by rank, as a test wishes; where fewer are left, the first ranks get them, and everyone one.
inline std::vector<std::uint64_t> steps_of_round(std::vector<std::uint64_t> wished, std::uint64_t left) {
  const std::uint64_t owed = wished.size();
  std::uint64_t more = left > owed ? left - owed : 0;
  for (auto& steps : wished) {
    const auto granted = std::min(steps - 1, more);
    more -= granted;
    steps = 1 + granted;
  }
  return wished;
}

/// A state server that knows no clock: the same steps in every round.
class Script final : public StepGrants {
 public:
  Script(std::uint32_t rank, std::vector<std::uint64_t> wished, double share)
      : rank_(rank), wished_(std::move(wished)), share_(share) {}

  Result<Grant> more(const WorkerState& state, std::uint64_t /*job_step*/) override {
    return Grant{.steps = state.steps > 0 ? 0 : steps_of_round(wished_, state.left)[rank_], .share = share_};
  }
  Result<void> leave(std::uint64_t, bool) override { return {}; }

 private:
  const std::uint32_t rank_;
  const std::vector<std::uint64_t> wished_;
  const double share_;
};

inline protocol::JobSpec esync_job(const std::string& compressor, nlohmann::json params = nlohmann::json::object(),
                                   double ratio = 0.25) {
  auto spec = small_job(compressor, ratio);
  if (compressor == "qsgd") spec.compression.compressor.params = {};
  if (compressor == "topk") spec.compression.memory = {"residual", {}};
  spec.training.mode = {"esync", std::move(params)};
  return spec;
}

/// However many steps a worker makes while another is not at its turn, some are left.
inline protocol::JobSpec endless_job() {
  auto spec = esync_job("none");
  spec.training.epochs = 1e6;
  return spec;
}

inline ESync::Options options_of(const protocol::JobSpec& spec) {
  ESync::Options options;
  (void)ESync::params().read(spec.training.mode.params, options);
  return options;
}

/// The job with as many workers as `wished` has numbers, in every round with these local steps.
inline Outcome train_scripted(const protocol::JobSpec& spec, const std::vector<std::uint64_t>& wished,
                              const Run& run = {}, const std::vector<double>& shares = {},
                              std::vector<std::uint64_t>* sent_bytes = nullptr) {
  const auto ranks = static_cast<std::uint32_t>(wished.size());
  auto group = collectives::in_process_group(ranks);
  Outcome outcome{std::vector<Watcher>(ranks), std::vector<Segment>(ranks), std::vector<Result<bool>>(ranks, false)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    replica->mode = std::make_unique<ESync>(
        options_of(spec),
        ESync::Instruments{.now = {},
                           .grants = std::make_unique<Script>(rank, wished, shares.empty() ? 1 : shares[rank])});
    if (!run.checkpoint.empty()) replica->restore(protocol::testing::part_of(run.checkpoint, rank)).value();
    auto& watcher = outcome.watchers[rank];
    if (rank == run.stopper) watcher.stop_after = run.stop_after;
    replica->join(*group[rank]).value();
    outcome.results[rank] = replica->mode->train(*replica, watcher);
    if (sent_bytes != nullptr) (*sent_bytes)[rank] = group[rank]->traffic().sent_bytes;
    if (!outcome.results[rank]) group[rank]->abort(outcome.results[rank].error());
    outcome.shares[rank] = Segment::own(replica->save().value());
    replica.reset();
    group[rank]->close();
  });
  return outcome;
}

/// A job with a state server, in threads of this process.
class EsyncJob {
 public:
  EsyncJob(protocol::JobSpec spec, std::uint32_t workers, at::Device device = at::kCPU)
      : results(workers + 1, Result<bool>(false)),
        watchers(workers),
        group(group_for(spec, workers + 1)),
        spec_(std::move(spec)),
        workers_(workers),
        device_(device) {}

  /// A rank does this in the place of its work; see work() and serve().
  using Act = std::function<Result<bool>(std::uint32_t rank)>;

  EsyncJob& run(const Act& act = {}) {
    run_ranks(workers_ + 1, [&](std::uint32_t rank) {
      results[rank] = act ? act(rank) : run_rank(rank);
      if (!group[rank]) return;
      if (!results[rank]) group[rank]->abort(results[rank].error());
      if (results[rank]) group[rank]->close();
    });
    return *this;
  }
  Result<bool> run_rank(std::uint32_t rank) { return rank < workers_ ? work(rank) : serve(); }

  Result<bool> work(std::uint32_t rank) {
    auto replica = Replica::make(spec_, rank, workers_, 1, device_).value();
    if (auto joined = replica->join(*group[rank]); !joined) return joined.error();
    return replica->mode->train(*replica, watchers[rank]);
  }
  /// `steps_max`: the server leaves, lost, when the job has made so many.
  Result<bool> serve(std::optional<std::uint64_t> steps_max = std::nullopt) {
    if (auto same = expect_same_settings(*group[workers_], spec_); !same) return same.error();
    StepBudget budget({.workers = workers_});
    StateServer server(*group[workers_], budget, [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    });
    while (true) {
      const auto left = server.serve();
      if (!left) return left.error();
      job_steps.push_back(server.job_step());
      if (*left) return server.finished();
      if (steps_max && server.job_step() >= *steps_max) break;
    }
    group[workers_].reset();
    return false;
  }

  std::vector<Result<bool>> results;
  std::vector<Watcher> watchers;
  std::vector<std::uint64_t> job_steps;  ///< as the server has been told
  Group group;

 private:
  const protocol::JobSpec spec_;
  const std::uint32_t workers_;
  const at::Device device_;
};

}  // namespace weir::training::testing
