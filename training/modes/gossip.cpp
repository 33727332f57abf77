#include "training/modes/gossip.hpp"

#include <chrono>
#include <span>
#include <utility>

#include "base/errc.hpp"
#include "collectives/gossip/graph.hpp"
#include "collectives/topologies/ring.hpp"
#include "compressors/memories/misfit.hpp"
#include "training/exchange/stopwatch.hpp"
#include "training/gossip/mixing.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {
namespace {

using Clock = std::chrono::steady_clock;

collectives::GraphChoice graph_choice(const Gossip::Options& options, const protocol::JobSpec& spec) {
  return {.name = options.graph, .degree = options.degree, .seed = static_cast<std::int64_t>(spec.training.seed)};
}

}  // namespace

protocol::Params<Gossip::Options> Gossip::params() {
  std::vector<std::string_view> names;
  for (const auto& graph : collectives::graphs()) names.push_back(graph.name);
  return protocol::Params<Options>()
      .choice("graph", &Options::graph, names, "Who is whose neighbour.")
      .integer("degree", &Options::degree, {.minimum = 1, .maximum = 1023},
               "Of random_regular: how many neighbours each worker has.")
      .optional_number("consensus_step", &Options::consensus_step, {.exclusive_minimum = 0, .maximum = 1},
                       "How far a worker goes towards its neighbours' models in a step. Null: 1, and for compressed "
                       "tensors half of what the compressor makes a difference shrink by.")
      .only_where("degree", "graph", {{"const", "random_regular"}});
}

Gossip::Gossip(Options options) : options_(std::move(options)) {}
Gossip::~Gossip() = default;

Result<void> Gossip::check(const protocol::JobSpec& spec, std::uint32_t world,
                           const compressors::Compression& compression) const {
  const std::string in_mode = "training.mode \"gossip\" does not fit ";
  const auto refuse = [&](const std::string& what) { return Error{Errc::invalid_argument, in_mode + what}; };
  if (compression.memory->name() != "none") {
    return refuse("compression.memory \"" + std::string(compression.memory->name()) +
                  "\": what was not sent is still in the difference to what the neighbours know; leave it null");
  }
  if (const auto reason = compressors::no_neighbours(*compression.compressor)) {
    return refuse("compressor \"" + std::string(compression.compressor->name()) + "\": " + *reason);
  }
  if (spec.compression.aggregation != "mean") {
    return refuse("compression.aggregation \"" + spec.compression.aggregation +
                  "\": neighbours mix models with the weights of their graph; leave it at \"mean\"");
  }
  if (spec.compression.apply_to != "gradients") {
    return refuse("compression.apply_to \"" + spec.compression.apply_to +
                  "\": neighbours mix parameters in any case, and statistics of batches stay each worker's own; leave "
                  "it at \"gradients\"");
  }
  if (spec.exchange.topology != collectives::Ring::name) {
    return refuse("exchange.topology \"" + spec.exchange.topology +
                  "\": workers exchange with their neighbours in training.params.graph; leave it at \"ring\", around "
                  "which the mean of the models is computed where it is evaluated or saved");
  }
  const auto graph = collectives::make_graph(world, graph_choice(options_, spec));
  return graph ? Result<void>() : graph.error().within("training.params");
}

Result<void> Gossip::join(Replica& replica, collectives::Fabric& fabric) {
  const auto graph = collectives::make_graph(replica.world, graph_choice(options_, replica.spec));
  if (!graph) return graph.error();
  mixing_ = std::make_unique<Mixing>(options_.consensus_step, replica, fabric, *graph);
  if (auto joined = mixing_->join(options_.consensus_step, fabric); !joined) return joined;
  if (!mean_.empty()) return mixing_->choco().restore(own_state_);
  for (const auto& [name, tensor] : averaged_tensors(*replica.model)) mean_.push_back({name, tensor.detach().clone()});
  return {};
}

Result<bool> Gossip::train(Replica& replica, Progress& progress) {
  Passes passes(replica, Passes::all_steps(replica));
  const auto dense_bytes =
      2 * (replica.world - 1) * static_cast<std::uint64_t>(mixing_->entries()) * sizeof(float) / replica.world;
  while (replica.step < replica.length.steps_total) {
    const auto start = Clock::now();
    mixing_->begin(start, progress.stop_wanted());
    const auto loss = own_step(replica, passes);
    if (!loss) return loss.error();
    if (auto ended = mixing_->end(); !ended) return ended.error();

    const bool last = replica.step == replica.length.steps_total;
    const bool stops = last || mixing_->stops_after(replica.step);
    StepRecord record{.step = replica.step,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .settled = stops || progress.model_wanted(replica.step),
                      .local_steps = 1,
                      .dense_bytes = dense_bytes};
    if (record.settled) {
      const auto distance = mixing_->average(mean_);
      if (!distance) return distance.error();
      record.consensus_distance = *distance;
    }
    record.times = mixing_->times();
    record.seconds = seconds_since(start);
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (stops) return last;
  }
  return true;
}

ModeState Gossip::save() const {
  ModeState state{.model = mean_};
  if (mixing_) state.own = mixing_->choco().save();
  return state;
}

Result<void> Gossip::restore(Replica& replica, std::span<const NamedTensor> common, std::span<const NamedTensor> own) {
  if (!common.empty()) return Error{Errc::malformed, "the checkpoint is of another training mode"};
  mean_.clear();
  for (const auto& [name, tensor] : averaged_tensors(*replica.model)) mean_.push_back({name, tensor.detach().clone()});
  own_state_.assign(own.begin(), own.end());
  return {};
}

const TrafficAccount* Gossip::traffic(const Replica&) const { return mixing_ ? &mixing_->trace() : nullptr; }

}  // namespace weir::training
