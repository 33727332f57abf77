#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/topologies/catalog.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/safetensors.hpp"
#include "ranks.hpp"
#include "tests/protocol/part_of.hpp"
#include "training/modes/mode.hpp"

namespace weir::training::testing {

inline std::vector<at::Tensor> cloned(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> clones;
  for (const auto& one : tensors) clones.push_back(one.tensor.detach().to(at::kCPU).clone());
  return clones;
}

inline bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

/// What a rank has been through, by step.
class Watcher final : public Progress {
 public:
  bool stop_wanted() const override { return stop_; }
  bool model_wanted(std::uint64_t steps) const override { return average_every > 0 && steps % average_every == 0; }
  Result<void> step_done(const Replica& replica, const StepRecord& record) override {
    models.push_back(cloned(replica.model->parameters()));
    buffers.push_back(cloned(replica.model->buffers()));
    records.push_back(record);
    if (record.settled) common.push_back(cloned(replica.mode->save().model));
    if (record.step == stop_after) stop_ = true;
    if (after_step) after_step(record.step);
    return {};
  }

  std::vector<std::uint64_t> settled() const {
    std::vector<std::uint64_t> steps;
    for (const auto& record : records) {
      if (record.settled) steps.push_back(record.step);
    }
    return steps;
  }

  std::vector<std::vector<at::Tensor>> models;  ///< this rank's own
  std::vector<std::vector<at::Tensor>> buffers;
  std::vector<std::vector<at::Tensor>> common;  ///< of the training, where it was there
  std::vector<StepRecord> records;
  std::uint64_t stop_after = 0;     ///< 0: never
  std::uint64_t average_every = 0;  ///< 0: never
  std::function<void(std::uint64_t step)> after_step;

 private:
  bool stop_ = false;
};

/// What a job came to, by rank.
struct Outcome {
  std::vector<Watcher> watchers;
  std::vector<Segment> shares;
  std::vector<Result<bool>> results;

  Segment checkpoint() const { return Segment::own(protocol::join_checkpoint(shares).value().whole()); }
};

struct Run {
  Segment checkpoint = {};
  std::uint32_t stopper = 1;     ///< the rank that wants to stop
  std::uint64_t stop_after = 0;  ///< so many steps; 0: never
  std::uint64_t average_every = 0;
  std::vector<at::Device> devices = {};  ///< by rank; empty: the processor
};

/// The job with batch norm, whose statistics are buffers.
inline protocol::JobSpec with_batch_norm(protocol::JobSpec spec) {
  spec.model = {"resnet20", {{"depth", 8}, {"width", 4}}};
  spec.dataset.choice = {"synthetic",
                         {{"height", 8}, {"width", 8}, {"classes", 4}, {"train_examples", 96}, {"test_examples", 16}}};
  spec.training.batch_size = 8;
  spec.training.epochs = 1;
  spec.exchange.bucket_bytes = 1 << 20;
  return spec;
}

/// A group in which the job can exchange: NCCL is not for simulated networks.
inline Group group_for(const protocol::JobSpec& spec, std::uint32_t ranks) {
  const auto* topology = collectives::find_topology(spec.exchange.topology);
  return topology != nullptr && topology->on_devices ? tcp_group(ranks) : collectives::in_process_group(ranks);
}

inline Outcome train(const protocol::JobSpec& spec, std::uint32_t ranks, const Run& run = {}) {
  auto group = group_for(spec, ranks);
  Outcome outcome{std::vector<Watcher>(ranks), std::vector<Segment>(ranks), std::vector<Result<bool>>(ranks, false)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    const at::Device device = run.devices.empty() ? at::Device(at::kCPU) : run.devices[rank];
    auto replica = Replica::make(spec, rank, ranks, 0, device).value();
    if (!run.checkpoint.empty()) replica->restore(protocol::testing::part_of(run.checkpoint, rank)).value();
    auto& watcher = outcome.watchers[rank];
    if (rank == run.stopper) watcher.stop_after = run.stop_after;
    watcher.average_every = run.average_every;
    replica->join(*group[rank]).value();
    outcome.results[rank] = replica->mode->train(*replica, watcher);
    if (!outcome.results[rank]) group[rank]->abort(outcome.results[rank].error());
    outcome.shares[rank] = Segment::own(replica->save().value());
    replica.reset();
    group[rank]->close();
  });
  return outcome;
}

/// The message of the refusal; empty if the job is accepted.
inline std::string refusal(const protocol::JobSpec& spec, std::uint32_t ranks = 2) {
  const auto made = Replica::make(spec, 0, ranks);
  return made ? std::string() : made.error().message();
}

}  // namespace weir::training::testing
