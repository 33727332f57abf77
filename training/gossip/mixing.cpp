#include "training/gossip/mixing.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "training/exchange/agreement.hpp"
#include "training/exchange/stopwatch.hpp"
#include "training/gossip/consensus_step.hpp"
#include "training/job_parts.hpp"

namespace weir::training {
namespace {

using Clock = Mixing::Clock;
using protocol::Activity;

/// Whether all rounds but those of a warm-up encode the tensor.
bool is_coded(const compressors::Compressor& compressor, at::IntArrayRef shape) {
  const compressors::Round late{.step = 1'000'000'000, .epoch = 1e9, .world = 2};
  return !compressor.traits().lossless && compressor.takes(shape) && !compressor.goes_dense(shape, late);
}

}  // namespace

std::vector<NamedTensor> averaged_tensors(const Model& model) {
  auto tensors = model.parameters();
  for (auto& statistic : model.statistics()) tensors.push_back(std::move(statistic));
  return tensors;
}

BytesView StopMessage::write() {
  const std::uint64_t number = steps_.value_or(0);
  std::memcpy(bytes_.data(), &number, sizeof number);
  return bytes_;
}

Result<void> StopMessage::read(BytesView message, std::uint64_t done) {
  std::uint64_t number = 0;
  if (message.size() != sizeof number) return Error{Errc::malformed, "a message about stopping of another length"};
  std::memcpy(&number, message.data(), sizeof number);
  if (number == 0) return {};
  if (number <= done) return Error{Errc::malformed, "a neighbour wants to have stopped before"};
  steps_ = std::min(steps_.value_or(number), number);
  return {};
}

Mixing::Mixing(std::optional<double> consensus_step, Replica& replica, collectives::Fabric& fabric,
               const collectives::Graph& graph)
    : replica_(replica),
      parameters_(replica.model->parameters()),
      plain_step_(consensus_step.value_or(1)),
      overlaps_(replica.compression().compressor->traits().lossless),
      stop_distance_(std::max(1U, graph.diameter())),
      graph_(graph.fingerprint()) {
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

Result<void> Mixing::join(std::optional<double> consensus_step, collectives::Fabric& fabric) {
  std::vector<float> steps(coded_.size(), static_cast<float>(consensus_step.value_or(0)));
  if (!consensus_step && !coded_.empty()) {
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
                                                  .course = replica_.course(),
                                                  .rank = replica_.rank,
                                                  .graph = graph_,
                                                  .neighbours = {neighbours.begin(), neighbours.end()},
                                                  .weights = {weights.begin(), weights.end()}});
  return {};
}

void Mixing::begin(Clock::time_point start, bool stop_wanted) {
  step_ = {.number = replica_.step, .epoch = replica_.epoch(), .learning_rate = 1, .vote = 0, .begin = start};
  waited_ = 0;
  neighbours_->begin(step_);
  if (stop_wanted) stop_.propose(replica_.step + stop_distance_);
  const BytesView stop = stop_.write();
  neighbours_->gather(0, stop, stop.size(), {});
  if (overlaps_) begin_mixing();
}

Result<void> Mixing::end() {
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

Exchange::Times Mixing::times() const {
  const PhaseTimes times = neighbours_->trace().times();
  return {.encode = times.encode, .exchange = times.wire, .decode = times.decode, .wait = waited_};
}

Result<double> Mixing::average(std::vector<NamedTensor>& mean) {
  const at::NoGradGuard no_grad;
  const auto averaged = averaged_tensors(*replica_.model);  // a module may have replaced its statistics
  if (auto alike = expect_alike(averaged, mean); !alike) return alike.error();
  std::int64_t entries = 0;
  for (const auto& [name, tensor] : averaged) entries += tensor.numel();
  at::Tensor all = at::empty({entries}, at::kFloat);
  std::vector<at::Tensor> parts;
  entries = 0;
  for (const auto& [name, tensor] : averaged) {
    parts.push_back(all.narrow(0, entries, tensor.numel()).view(tensor.sizes()));
    parts.back().copy_(tensor);
    entries += tensor.numel();
  }
  if (auto added = add_up(compressors::flat(all)); !added) return added.error();
  all.div_(static_cast<double>(replica_.world));
  for (std::size_t t = 0; t < parts.size(); ++t) mean[t].tensor.copy_(parts[t]);
  double squares = 0;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    squares += (parameters_[p].tensor - mean[p].tensor).square().sum(at::kDouble).item<double>();
  }
  std::array sum{static_cast<float>(squares)};
  if (auto added = add_up(sum); !added) return added.error();
  return std::sqrt(sum[0] / static_cast<double>(replica_.world));
}

/// Divides the compressed tensors into buckets.
void Mixing::divide() {
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
void Mixing::begin_mixing() {
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

Result<void> Mixing::end_mixing() {
  if (plain_.empty()) return {};
  if (auto mixed = wait(1); !mixed) return mixed;
  const at::NoGradGuard no_grad;
  const StepTrace::Span span(neighbours_->trace(), 1, Activity::decode, 0);
  mixed_.sub_(before_);
  std::int64_t entries = 0;
  for (const auto p : plain_) {
    at::Tensor tensor = parameters_[p].tensor;
    const at::Tensor change = mixed_.narrow(0, entries, tensor.numel()).view(tensor.sizes());
    tensor.add_(change.to(tensor.device()), plain_step_);
    entries += tensor.numel();
  }
  return {};
}

Result<void> Mixing::begin_bucket(std::size_t b) {
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

Result<void> Mixing::end_bucket(std::size_t b) {
  const Bucket& bucket = buckets_[b];
  const std::size_t message = first_bucket() + b;
  if (auto arrived = wait(message); !arrived) return arrived;
  const StepTrace::Span span(neighbours_->trace(), message, Activity::decode, 1);
  return choco_->take(step_, bucket.first, bucket.last, bucket.payload, bucket.ends, neighbours_->gathered(message));
}

Result<void> Mixing::take_stop() {
  if (auto arrived = wait(0); !arrived) return arrived;
  const auto messages = neighbours_->gathered(0);
  for (std::size_t n = 0; n < messages.size(); ++n) {
    if (auto read = stop_.read(messages[n], step_.number); !read) {
      return read.error().within("rank " + std::to_string(neighbours_->neighbours()[n]));
    }
  }
  return {};
}

Result<void> Mixing::add_up(std::span<float> values) {
  const auto start = Clock::now();
  auto added = neighbours_->add_up(values);
  waited_ += seconds_since(start);
  return added;
}

Result<void> Mixing::wait(std::size_t message) {
  const auto start = Clock::now();
  auto done = neighbours_->wait(message);
  waited_ += seconds_since(start);
  return done;
}

}  // namespace weir::training
