#include "training/gossip/choco.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/sent.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

using compressors::Reduction;
using compressors::Round;
using compressors::Sent;

/// As CodedRound has them: a payload may be larger than the tensor by this factor.
constexpr std::size_t payload_growth_max = 2;
constexpr std::size_t payload_slack_bytes = 64 * 1024;

/// Of the fingerprint in a saved state.
constexpr std::string_view graph_name = "graph";

BytesView bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

/// tensor += weight * the floats in `bytes`, as many as it has.
Result<void> add_floats(BytesView bytes, float weight, at::Tensor& tensor) {
  if (!tensor.is_cpu()) return compressors::device::add_scaled(weight, bytes, tensor);
  const auto to = compressors::flat(tensor);
  for (std::size_t i = 0; i < to.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    to[i] += weight * value;
  }
  return {};
}

}  // namespace

Choco::Choco(std::span<const NamedTensor> parameters, std::span<const std::uint32_t> coded, std::vector<double> steps,
             compressors::Compressor& compressor, Options options)
    : compressor_(compressor), options_(std::move(options)) {
  for (const float weight : options_.weights) weights_sum_ += weight;
  for (std::size_t i = 0; i < coded.size(); ++i) {
    const NamedTensor& value = parameters[coded[i]];
    const at::Device place = value.tensor.device();
    const bool there = !place.is_cpu() && compressor.codes_on(place) && compressor.decodes_on(place);
    if (there && !beside_) beside_.emplace(stream_for_coding(place));
    const at::Tensor now = there ? value.tensor.detach() : on_host(value.tensor.detach());
    coded_.push_back({.parameter = coded[i],
                      .value = value,
                      .estimate = now.clone(),
                      .pull = at::zeros_like(now),
                      .difference = at::empty_like(now),
                      .entries = {},
                      .scale = static_cast<float>(scale_of(compressor, compressors::entries_of(now.sizes()))),
                      .step = steps[i]});
  }
}

double Choco::scale_of(const compressors::Compressor& compressor, std::uint64_t entries) {
  const double bound = compressor.error_bound(entries, {});
  return compressor.traits().biased && bound <= 1 ? 1 : 1 / (1 + bound);
}

Round Choco::round_of(const Step& step, const Coded& coded, std::uint32_t rank) const {
  return {.seed = options_.seed,
          .step = step.number,
          .epoch = step.epoch,
          .course = options_.course,
          .learning_rate = step.learning_rate,
          .tensor = coded.parameter,
          .rank = rank};
}

/// A payload goes to each neighbour, as a tensor would: what is longer than that is not worth it.
bool Choco::goes_dense(const Step& step, const Coded& coded) const {
  Round round = round_of(step, coded, options_.rank);
  round.world = 2;
  return compressor_.goes_dense(coded.value.tensor.sizes(), round);
}

/// Begins to encode the tensors of a bucket that are on a device.
Result<void> Choco::begin_there(const Step& step, std::span<Coded> bucket) {
  std::vector<at::Tensor> differences;
  std::vector<Round> rounds;
  for (Coded& coded : bucket) {
    if (coded.difference.is_cpu()) continue;
    at::sub_out(coded.difference, coded.value.tensor, coded.estimate);
    if (goes_dense(step, coded)) continue;
    differences.push_back(coded.difference);
    rounds.push_back(round_of(step, coded, options_.rank));
  }
  return compressor_.begin(differences, rounds);
}

Result<void> Choco::encode(const Step& step, std::size_t first, std::size_t last, Bytes& out,
                           std::vector<std::size_t>& ends) {
  const at::NoGradGuard no_grad;
  const InSideStream beside(beside_ ? &*beside_ : nullptr);
  const bool sparse = compressor_.traits().sparse;
  const auto bucket = std::span(coded_).subspan(first, last - first);
  if (auto begun = begin_there(step, bucket); !begun) return begun;
  for (Coded& coded : bucket) {
    if (coded.difference.is_cpu()) at::sub_out(coded.difference, on_host(coded.value.tensor), coded.estimate);
    if (goes_dense(step, coded)) {
      const at::Tensor values = on_host(coded.difference);
      const BytesView difference = bytes_of(values);
      out.insert(out.end(), difference.begin(), difference.end());
    } else {
      const Round round = round_of(step, coded, options_.rank);
      auto encoded = compressor_.encode(coded.difference, round, out, sparse ? &coded.entries : nullptr);
      if (!encoded) return encoded.error().within("difference of " + coded.value.name);
    }
    ends.push_back(out.size());
  }
  return {};
}

Result<void> Choco::take(const Step& step, std::size_t first, std::size_t last, BytesView own,
                         std::span<const std::size_t> ends, std::span<const Bytes> received) {
  const at::NoGradGuard no_grad;
  const InSideStream beside(beside_ ? &*beside_ : nullptr);
  std::vector<BytesView> streams(received.begin(), received.end());
  waiting_.clear();
  for (std::size_t i = first, begin = 0; i < last; begin = ends[i++ - first]) {
    Coded& coded = coded_[i];
    const BytesView payload = own.subspan(begin, ends[i - first] - begin);
    if (auto taken = take_own(step, coded, payload); !taken) return taken;
    for (std::size_t n = 0; n < streams.size(); ++n) {
      if (auto taken = take_of(step, coded, n, payload.size(), streams[n]); !taken) {
        return taken.error().within("difference of " + coded.value.name + " of rank " +
                                    std::to_string(options_.neighbours[n]));
      }
    }
  }
  for (std::size_t n = 0; n < streams.size(); ++n) {
    if (streams[n].empty()) continue;
    return Error{Errc::malformed,
                 "rank " + std::to_string(options_.neighbours[n]) + " sent more than the payloads of its message"};
  }
  if (auto added = compressor_.decode_add_all(std::exchange(waiting_, {})); !added) return added;
  for (Coded& coded : std::span(coded_).subspan(first, last - first)) {
    at::Tensor(coded.value.tensor).add_(coded.pull.to(coded.value.tensor.device()), coded.step);
  }
  return {};
}

Result<void> Choco::take_own(const Step& step, Coded& coded, BytesView payload) {
  if (goes_dense(step, coded)) {
    auto added = add_floats(payload, 1, coded.estimate);
    return added ? add_floats(payload, -weights_sum_, coded.pull) : added;
  }
  const float to_pull = -coded.scale * weights_sum_;
  if (compressor_.traits().sparse) {
    const Sent sent(coded.entries);
    auto added = sent.add_to(coded.estimate, coded.scale);
    return added ? sent.add_to(coded.pull, to_pull) : added;
  }
  const Round round = round_of(step, coded, options_.rank);
  auto added = compressor_.decode_add_later(payload, round, coded.scale, coded.estimate, waiting_);
  return added ? compressor_.decode_add_later(payload, round, to_pull, coded.pull, waiting_) : added;
}

/// Takes the payload of one tensor off what a neighbour has sent.
Result<void> Choco::take_of(const Step& step, Coded& coded, std::size_t neighbour, std::size_t own_bytes,
                            BytesView& stream) {
  const float weight = options_.weights[neighbour];
  const bool dense = goes_dense(step, coded);
  Result<BytesView> payload = BytesView();
  if (!dense && compressor_.traits().passes.front() == Reduction::gather) {
    payload = compressors::take_payload(stream);
  } else if (stream.size() < own_bytes) {
    payload = Error{Errc::malformed, "a message that ends too early"};
  } else {  // as long on all ranks
    payload = stream.first(own_bytes);
    stream = stream.subspan(own_bytes);
  }
  if (!payload) return payload.error();
  if (dense) return add_floats(*payload, weight, coded.pull);
  const Round round = round_of(step, coded, options_.neighbours[neighbour]);
  return compressor_.decode_add_later(*payload, round, weight * coded.scale, coded.pull, waiting_);
}

std::size_t Choco::bytes_max(std::size_t first, std::size_t last) const {
  std::size_t bytes = payload_slack_bytes;
  for (std::size_t i = first; i < last; ++i) bytes += payload_growth_max * coded_[i].estimate.nbytes();
  return bytes;
}

/// What is kept between steps, by name.
std::vector<NamedTensor> Choco::sums() const {
  std::vector<NamedTensor> all;
  for (const Coded& coded : coded_) {
    all.push_back({"estimate." + coded.value.name, coded.estimate});
    all.push_back({"pull." + coded.value.name, coded.pull});
  }
  return all;
}

std::vector<NamedTensor> Choco::save() const {
  auto state = sums();
  if (state.empty()) return state;
  const auto graph = static_cast<std::int64_t>(options_.graph);
  state.push_back({std::string(graph_name), at::full({1}, graph, at::kLong)});
  return state;
}

Result<void> Choco::restore(std::span<const NamedTensor> state) {
  const auto live = sums();
  const auto graph = std::ranges::find(state, graph_name, &NamedTensor::name);
  const bool known = graph != state.end() && graph->tensor.scalar_type() == at::kLong && graph->tensor.numel() == 1;
  if (known && static_cast<std::uint64_t>(graph->tensor.item<std::int64_t>()) != options_.graph) {
    return Error{Errc::conflict,
                 "in the checkpoint each worker has a sum over its neighbours, and here the graph is another: set "
                 "training.params.graph and degree and, for random_regular, training.seed as in the job that wrote it"};
  }
  const bool complete = live.empty() ? state.empty() : known && state.size() == live.size() + 1;
  if (!complete) return Error{Errc::malformed, "the checkpoint has other tensors than these neighbours would keep"};
  for (const auto& one : live) {
    const auto saved = std::ranges::find(state, one.name, &NamedTensor::name);
    if (saved == state.end() || saved->tensor.sizes() != one.tensor.sizes() ||
        saved->tensor.dtype() != one.tensor.dtype()) {
      return Error{Errc::malformed,
                   "the checkpoint has no '" + one.name + "' for these neighbours and this compressor"};
    }
  }
  for (const auto& one : live) {
    at::Tensor(one.tensor).copy_(std::ranges::find(state, one.name, &NamedTensor::name)->tensor);
  }
  return {};
}

}  // namespace weir::training
