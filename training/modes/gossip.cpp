#include "training/modes/gossip.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/errc.hpp"
#include "collectives/gossip/graph.hpp"
#include "collectives/topologies/ring.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/misfit.hpp"
#include "training/exchange/agreement.hpp"
#include "training/gossip/choco.hpp"
#include "training/gossip/consensus_step.hpp"
#include "training/gossip/neighbour_exchange.hpp"
#include "training/job_parts.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Activity;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

collectives::GraphChoice graph_choice(const Gossip::Options& options, const protocol::JobSpec& spec) {
  return {.name = options.graph, .degree = options.degree, .seed = static_cast<std::int64_t>(spec.training.seed)};
}

/// Whether all rounds but those of a warm-up encode the tensor.
bool is_coded(const compressors::Compressor& compressor, at::IntArrayRef shape) {
  const compressors::Round late{.step = 1'000'000'000, .epoch = 1e9, .world = 2};
  return !compressor.traits().lossless && compressor.takes(shape) && !compressor.goes_dense(shape, late);
}

/// When to stop, as neighbours tell each other: after how many steps; 0: not known.
class StopMessage {
 public:
  void propose(std::uint64_t steps) {
    if (!steps_) steps_ = steps;
  }
  bool comes_after(std::uint64_t steps) const { return steps_ == steps; }

  BytesView write() {
    const std::uint64_t number = steps_.value_or(0);
    std::memcpy(bytes_.data(), &number, sizeof number);
    return bytes_;
  }

  /// Takes a neighbour's message, who has `done` steps behind it and one under way. Fails with: malformed.
  Result<void> read(BytesView message, std::uint64_t done) {
    std::uint64_t number = 0;
    if (message.size() != sizeof number) return Error{Errc::malformed, "a message about stopping of another length"};
    std::memcpy(&number, message.data(), sizeof number);
    if (number == 0) return {};
    if (number <= done) return Error{Errc::malformed, "a neighbour wants to have stopped before"};
    steps_ = std::min(steps_.value_or(number), number);
    return {};
  }

 private:
  std::optional<std::uint64_t> steps_;
  std::array<std::byte, sizeof(std::uint64_t)> bytes_{};
};

}  // namespace

/// One rank and its neighbours: a step consists of begin(), the passes and the optimizer's step, and end().
class Gossip::Ranks {
 public:
  Ranks(const Options& options, Replica& replica, collectives::Fabric& fabric, const collectives::Graph& graph)
      : replica_(replica),
        parameters_(replica.model->parameters()),
        plain_step_(options.consensus_step.value_or(1)),
        overlaps_(replica.compression().compressor->traits().lossless),
        stop_distance_(std::max(1U, graph.diameter())) {
    const auto& compressor = *replica.compression().compressor;
    for (std::uint32_t p = 0; p < parameters_.size(); ++p) {
      auto& positions = is_coded(compressor, parameters_[p].tensor.sizes()) ? coded_ : plain_;
      positions.push_back(p);
      entries_ += parameters_[p].tensor.numel();
    }
    std::int64_t entries = 0;
    for (const auto p : plain_) {
      entries += parameters_[p].tensor.numel();
      plain_ends_.push_back(static_cast<std::size_t>(entries) * sizeof(float));
    }
    before_ = at::empty({entries}, at::kFloat);
    mixed_ = at::empty({entries}, at::kFloat);
    divide();
    neighbours_ = std::make_unique<NeighbourExchange>(fabric, graph, parameters_, first_bucket() + buckets_.size());
  }

  /// Agrees on the steps of the compressed tensors. Fails with what the group and the compressor fail with.
  Result<void> join(const Options& options, collectives::Fabric& fabric) {
    std::vector<float> steps(coded_.size(), static_cast<float>(options.consensus_step.value_or(0)));
    if (!options.consensus_step && !coded_.empty()) {
      const auto probe = make_compression(replica_.spec);
      if (!probe) return probe.error();
      for (std::size_t i = 0; i < coded_.size(); ++i) {
        const auto shape = parameters_[coded_[i]].tensor.sizes();
        steps[i] = static_cast<float>(
            consensus_step_for(contraction_of(*probe->compressor, shape, replica_.spec.training.seed)));
      }
    }
    // Ranks with another processor might come to others.
    if (auto agreed = agree_on_largest(fabric, steps); !agreed) return agreed;
    const auto neighbours = neighbours_->neighbours();
    const auto weights = neighbours_->weights();
    choco_ = std::make_unique<Choco>(parameters_, coded_, std::vector<double>(steps.begin(), steps.end()),
                                     *replica_.compression().compressor,
                                     Choco::Options{.seed = replica_.spec.training.seed,
                                                    .epochs_total = replica_.epochs_total(),
                                                    .rank = replica_.rank,
                                                    .neighbours = {neighbours.begin(), neighbours.end()},
                                                    .weights = {weights.begin(), weights.end()}});
    return {};
  }

  Choco& choco() { return *choco_; }
  const StepTrace& trace() const { return neighbours_->trace(); }

  void begin(Clock::time_point start, bool stop_wanted) {
    step_ = {.number = replica_.step, .epoch = replica_.epoch(), .learning_rate = 1, .vote = 0, .begin = start};
    waited_ = 0;
    neighbours_->begin(step_);
    if (stop_wanted) stop_.propose(replica_.step + stop_distance_);
    const BytesView stop = stop_.write();
    neighbours_->gather(0, stop, stop.size(), {});
    if (overlaps_) begin_mixing();
  }

  Result<void> end() {
    if (!overlaps_) {
      begin_mixing();
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        if (auto begun = begin_bucket(b); !begun) return begun;
      }
    }
    if (auto stopped = take_stop(); !stopped) return stopped;
    if (auto mixed = end_mixing(); !mixed) return mixed;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (auto ended = end_bucket(b); !ended) return ended;
    }
    return {};
  }

  Exchange::Times times() const {
    const PhaseTimes times = neighbours_->trace().times();
    return {.encode = times.encode, .exchange = times.wire, .decode = times.decode, .wait = waited_};
  }
  bool stops_after(std::uint64_t steps) const { return stop_.comes_after(steps); }
  std::int64_t entries() const { return entries_; }

  /// Makes `mean` that of all ranks' models. Returns how far these are from it. Fails with what the group fails with.
  Result<double> average(std::vector<NamedTensor>& mean) {
    const at::NoGradGuard no_grad;
    at::Tensor all = at::empty({entries_}, at::kFloat);
    std::vector<at::Tensor> parts;
    std::int64_t entries = 0;
    for (const auto& [name, tensor] : parameters_) {
      parts.push_back(all.narrow(0, entries, tensor.numel()).view(tensor.sizes()));
      parts.back().copy_(tensor);
      entries += tensor.numel();
    }
    if (auto added = neighbours_->add_up(compressors::flat(all)); !added) return added.error();
    all.div_(static_cast<double>(replica_.world));
    double squares = 0;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      mean[p].tensor.copy_(parts[p]);
      squares += (parameters_[p].tensor - mean[p].tensor).square().sum(at::kDouble).item<double>();
    }
    std::array sum{static_cast<float>(squares)};
    if (auto added = neighbours_->add_up(sum); !added) return added.error();
    return std::sqrt(sum[0] / static_cast<double>(replica_.world));
  }

 private:
  /// Compressed tensors whose payloads travel together.
  struct Bucket {
    std::size_t first = 0;
    std::size_t last = 0;
    Bytes payload = {};
    std::vector<std::size_t> ends = {};
  };

  std::size_t first_bucket() const { return plain_.empty() ? 1 : 2; }

  /// Divides the compressed tensors into buckets.
  void divide() {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < coded_.size(); ++i) {
      if (buckets_.empty() || bytes >= replica_.spec.exchange.bucket_bytes) {
        buckets_.push_back({.first = i, .last = i});
        bytes = 0;
      }
      ++buckets_.back().last;
      bytes += parameters_[coded_[i]].tensor.nbytes();
    }
  }

  /// The plain tensors as they are now are mixed from now on.
  void begin_mixing() {
    if (plain_.empty()) return;
    const at::NoGradGuard no_grad;
    std::int64_t entries = 0;
    for (const auto p : plain_) {
      const at::Tensor& tensor = parameters_[p].tensor;
      before_.narrow(0, entries, tensor.numel()).copy_(tensor.view({-1}));
      entries += tensor.numel();
    }
    mixed_.copy_(before_);
    neighbours_->mix(1, compressors::flat(mixed_), {plain_, plain_ends_});
  }

  Result<void> end_mixing() {
    if (plain_.empty()) return {};
    if (auto mixed = wait(1); !mixed) return mixed;
    const at::NoGradGuard no_grad;
    const StepTrace::Span span(neighbours_->trace(), 1, Activity::decode, 0);
    mixed_.sub_(before_);
    std::int64_t entries = 0;
    for (const auto p : plain_) {
      at::Tensor tensor = parameters_[p].tensor;
      tensor.add_(mixed_.narrow(0, entries, tensor.numel()).view(tensor.sizes()), plain_step_);
      entries += tensor.numel();
    }
    return {};
  }

  Result<void> begin_bucket(std::size_t b) {
    Bucket& bucket = buckets_[b];
    const std::size_t message = first_bucket() + b;
    bucket.payload.clear();
    bucket.ends.clear();
    {
      const StepTrace::Span span(neighbours_->trace(), message, Activity::encode, 1);
      auto encoded = choco_->encode(step_, bucket.first, bucket.last, bucket.payload, bucket.ends);
      if (!encoded) return encoded;
    }
    const auto tensors = std::span(coded_).subspan(bucket.first, bucket.last - bucket.first);
    neighbours_->gather(message, bucket.payload, choco_->bytes_max(bucket.first, bucket.last), {tensors, bucket.ends});
    return {};
  }

  Result<void> end_bucket(std::size_t b) {
    const Bucket& bucket = buckets_[b];
    const std::size_t message = first_bucket() + b;
    if (auto arrived = wait(message); !arrived) return arrived;
    const StepTrace::Span span(neighbours_->trace(), message, Activity::decode, 1);
    return choco_->take(step_, bucket.first, bucket.last, bucket.payload, bucket.ends, neighbours_->gathered(message));
  }

  Result<void> take_stop() {
    if (auto arrived = wait(0); !arrived) return arrived;
    const auto messages = neighbours_->gathered(0);
    for (std::size_t n = 0; n < messages.size(); ++n) {
      if (auto read = stop_.read(messages[n], step_.number); !read) {
        return read.error().within("rank " + std::to_string(neighbours_->neighbours()[n]));
      }
    }
    return {};
  }

  Result<void> wait(std::size_t message) {
    const auto start = Clock::now();
    auto done = neighbours_->wait(message);
    waited_ += seconds_since(start);
    return done;
  }

  Replica& replica_;
  const std::vector<NamedTensor> parameters_;
  const double plain_step_;
  const bool overlaps_;  ///< models are mixed as they were before the step
  const std::uint32_t stop_distance_;
  std::int64_t entries_ = 0;
  std::vector<std::uint32_t> plain_;  ///< positions of the tensors that are mixed as they are
  std::vector<std::uint32_t> coded_;
  std::vector<std::size_t> plain_ends_;
  at::Tensor before_;  ///< the plain tensors, one after the other
  at::Tensor mixed_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<Choco> choco_;
  StopMessage stop_;
  Step step_;
  double waited_ = 0;                              ///< in this step
  std::unique_ptr<NeighbourExchange> neighbours_;  ///< uses the above
};

protocol::Params<Gossip::Options> Gossip::params() {
  std::vector<std::string_view> names;
  for (const auto& graph : collectives::graphs()) names.push_back(graph.name);
  return protocol::Params<Options>()
      .choice("graph", &Options::graph, names, "Who is whose neighbour.")
      .integer("degree", &Options::degree, {.minimum = 1, .maximum = 1023},
               "Of random_regular: how many neighbours each worker has.")
      .optional_number("consensus_step", &Options::consensus_step, {.exclusive_minimum = 0, .maximum = 1},
                       "How far a worker goes towards its neighbours' models in a step. Null: 1, and for compressed "
                       "tensors half of what the compressor makes a difference shrink by.");
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
  ranks_ = std::make_unique<Ranks>(options_, replica, fabric, *graph);
  if (auto joined = ranks_->join(options_, fabric); !joined) return joined;
  if (!mean_.empty()) return ranks_->choco().restore(own_state_);
  for (const auto& [name, tensor] : replica.model->parameters()) mean_.push_back({name, tensor.detach().clone()});
  return {};
}

Result<bool> Gossip::train(Replica& replica, Progress& progress) {
  Passes passes(replica, Passes::all_steps(replica));
  const auto dense_bytes =
      2 * (replica.world - 1) * static_cast<std::uint64_t>(ranks_->entries()) * sizeof(float) / replica.world;
  while (replica.step < replica.steps_total) {
    const auto start = Clock::now();
    ranks_->begin(start, progress.stop_wanted());
    const auto loss = own_step(replica, passes);
    if (!loss) return loss.error();
    if (auto ended = ranks_->end(); !ended) return ended.error();

    const bool last = replica.step == replica.steps_total;
    const bool stops = last || ranks_->stops_after(replica.step);
    StepRecord record{.step = replica.step,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .settled = stops || progress.model_wanted(replica.step),
                      .local_steps = 1,
                      .times = ranks_->times(),
                      .dense_bytes = dense_bytes};
    if (record.settled) {
      const auto distance = ranks_->average(mean_);
      if (!distance) return distance.error();
      record.consensus_distance = *distance;
    }
    record.seconds = seconds_since(start);
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (stops) return last;
  }
  return true;
}

ModeState Gossip::save() const {
  ModeState state{.model = mean_};
  if (ranks_) state.own = ranks_->choco().save();
  return state;
}

Result<void> Gossip::restore(Replica& replica, std::span<const NamedTensor> common, std::span<const NamedTensor> own) {
  if (!common.empty()) return Error{Errc::malformed, "the checkpoint is of another training mode"};
  mean_.clear();
  for (const auto& [name, tensor] : replica.model->parameters()) mean_.push_back({name, tensor.detach().clone()});
  own_state_.assign(own.begin(), own.end());
  return {};
}

const StepTrace* Gossip::trace(const Replica&) const { return &ranks_->trace(); }

}  // namespace weir::training
