#include "training/servers/tensor_coder.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <cstring>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/sent.hpp"
#include "compressors/values.hpp"
#include "training/device.hpp"
#include "training/exchange/alone.hpp"

namespace weir::training::servers {
namespace {

using compressors::flat;
using compressors::HostValues;
using compressors::Reduction;
using compressors::Round;
using compressors::Sent;

/// As in an exchange without servers (coded_round.cpp).
constexpr std::uint64_t payload_growth_max = 2;
constexpr std::uint64_t payload_slack_bytes = 64 * 1024;

void append_as_is(Bytes& out, const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  append(out, std::as_bytes(flat(values)));
}

/// The values of a tensor that travels as it is; unaligned.
Result<BytesView> take_as_is(Reader& body, const at::Tensor& tensor) {
  return body.bytes(static_cast<std::uint64_t>(tensor.numel()) * sizeof(float));
}

void append_payload(Bytes& out, BytesView payload) {
  write(out, payload.size());
  append(out, payload);
}

Result<BytesView> take_payload(Reader& body) {
  const auto length = body.number();
  if (!length) return length.error();
  return body.bytes(*length);
}

Error of_gradient(const Error& error, const Gradient& gradient) {
  return error.within("gradient of " + std::string(gradient.name));
}

/// Whether it sends numbers, all or those that it draws, rounded to 16 bits and not scaled up. Each comes closer to
/// what it stands for; only those that are too small or too large for the format make the bound 1.
bool rounds_only(const compressors::Traits& traits) {
  const Reduction reduction = traits.passes.back();
  return !traits.scales_draw && (reduction == Reduction::sum_fp16 || reduction == Reduction::sum_bf16);
}

}  // namespace

std::optional<std::string> misfit(const compressors::Compression& compression) {
  const auto& [compressor, memory] = compression;
  const std::string with_servers = "\" does not fit where workers push gradients to servers: ";
  if (const auto reason = no_pushes(compressor->traits())) {
    return "compressor \"" + std::string(compressor->name()) + with_servers + *reason;
  }
  if (const auto reason = no_pushes(memory->traits())) {
    return "memory \"" + std::string(memory->name()) + with_servers + *reason;
  }
  return std::nullopt;
}

std::uint64_t TensorCoder::bytes_max(std::uint64_t entries) {
  return payload_growth_max * entries * sizeof(float) + payload_slack_bytes;
}

Round TensorCoder::round_of(const Turn& turn, std::uint32_t tensor) const {
  return {.seed = setting_.seed,
          .step = turn.clock,
          .epoch = static_cast<double>(turn.step) / static_cast<double>(setting_.steps_per_epoch),
          .course = setting_.course,
          .learning_rate = turn.learning_rate,
          .tensor = tensor,
          .rank = turn.answers ? setting_.workers + turn.worker : turn.worker,
          .world = setting_.workers,
          .by_owners = true,
          .alone = true};
}

bool TensorCoder::travels_as_is(const at::Tensor& tensor, const Round& round) const {
  return compressor().traits().lossless || !compressor().takes(tensor.sizes()) ||
         compressor().goes_dense(tensor.sizes(), round);
}

/// 0: the parameters travel as they are.
float TensorCoder::factor_of_difference(const at::Tensor& tensor, const Round& round) const {
  if (travels_as_is(tensor, round)) return 0;
  if (rounds_only(compressor().traits())) return 1;
  const double bound = compressor().error_bound(static_cast<std::uint64_t>(tensor.numel()), round);
  if (compressor().traits().biased) return bound < 1 ? 1 : 0;
  return static_cast<float>(1 / (1 + bound));
}

/// Whether the server chooses the entries of a difference, and not the compressor.
bool TensorCoder::chooses_difference(const at::Tensor& tensor) const {
  return compressor().traits().selects && tensor.numel() > 0;
}

Result<void> TensorCoder::encode(const at::Tensor& tensor, const Round& round, Bytes& out) {
  payload_.clear();
  auto* const own = compressor().traits().sparse ? &entries_ : nullptr;
  if (auto encoded = encode_alone(compressor(), tensor, round, payload_, own, scratch_); !encoded) return encoded;
  append_payload(out, payload_);
  return {};
}

/// Sends fewer than `count` entries where they would take more than a message has room for, as each takes more than a
/// float where sketches are wide: the next difference has the rest. Leaves in entries_ what is read of it.
Result<void> TensorCoder::encode_largest(const at::Tensor& tensor, const Round& round, std::uint64_t count,
                                         Bytes& out) {
  const auto values = flat(tensor);
  do {
    auto chosen = HostValues(values, {}).select_largest(std::min<std::uint64_t>(count, values.size()), entries_);
    if (!chosen) return chosen;
    // NaN and infinity compare larger than any number, so if there is one, it was chosen.
    if (compressors::find_non_finite(entries_.values) != entries_.size()) return compressors::non_finite(round, values);
    payload_.clear();
    compressor().write_part(entries_, static_cast<std::uint32_t>(values.size()), payload_);
    count = entries_.size() / 2;
  } while (payload_.size() + sizeof(std::uint64_t) > bytes_max(values.size()) && count > 0);
  append_payload(out, payload_);
  return {};
}

Result<std::vector<std::size_t>> TensorCoder::write_gradients(std::span<const Gradient> gradients, const Turn& turn,
                                                              Bytes& out) {
  if (auto encoded = encode_there(gradients, turn); !encoded) return encoded.error();
  std::vector<at::Tensor> others;
  auto there = encoded_.begin();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (there != encoded_.end() && there->index == i) {
      ++there;
    } else {
      others.push_back(gradients[i].values);
    }
  }
  others = all_on_host(others);
  std::vector<std::size_t> bytes;
  there = encoded_.begin();
  auto here = others.begin();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto before = out.size();
    if (there != encoded_.end() && there->index == i) {
      append_payload(out, (there++)->payload);
    } else if (auto written = write_gradient(gradients[i].tensor, *here++, turn, out); !written) {
      return of_gradient(written.error(), gradients[i]);
    }
    bytes.push_back(out.size() - before);
  }
  return bytes;
}

/// Encodes those of the gradients that lie where the compression codes, if that is not the processor, and that do not
/// travel as they are, to encoded_.
Result<void> TensorCoder::encode_there(std::span<const Gradient> gradients, const Turn& turn) {
  std::vector<at::Tensor> values;
  std::vector<Round> rounds;
  std::size_t count = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& gradient = gradients[i].values;
    const Round round = round_of(turn, gradients[i].tensor);
    if (gradient.is_cpu() || !compression_.codes_on(gradient.device()) || travels_as_is(gradient, round)) continue;
    values.push_back(gradient);
    rounds.push_back(round);
    if (encoded_.size() == count) encoded_.emplace_back();
    encoded_[count++].index = i;
  }
  encoded_.resize(count);
  if (count == 0) return {};
  auto& memory = *compression_.memory;
  std::vector<at::Tensor> inputs;
  if (auto compensated = memory.compensate_all(values, rounds, inputs); !compensated) {
    const std::size_t done = inputs.size();
    return done < count ? of_gradient(compensated.error(), gradients[encoded_[done].index]) : compensated.error();
  }
  for (Round& round : rounds) {
    const Round first = round;
    round.peaks = memory.peaks(first);
    round.bins = memory.bins(first);
  }
  if (auto encoded = encode_passes(gradients, inputs, rounds); !encoded) return encoded;
  std::vector<Sent> sent;
  for (std::size_t i = 0; i < count; ++i) {
    rounds[i].peaks = {};
    rounds[i].bins = nullptr;
    const Encoded& one = encoded_[i];
    sent.push_back(compressor().traits().sparse ? Sent(one.entries) : Sent(compressor(), one.payload, rounds[i]));
  }
  return memory.update_all(rounds, sent, values);
}

/// What encode_alone() does, for all tensors pass by pass: a device works on all of them while the first is waited for.
/// Leaves the last pass in `rounds`.
Result<void> TensorCoder::encode_passes(std::span<const Gradient> gradients, std::span<const at::Tensor> inputs,
                                        std::span<Round> rounds) {
  const auto traits = compressor().traits();
  for (std::uint32_t pass = 0; pass < traits.passes.size(); ++pass) {
    const bool last = pass + 1 == traits.passes.size();
    for (Round& round : rounds) round.pass = pass;
    if (auto begun = compressor().begin(inputs, rounds); !begun) return begun;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Encoded& one = encoded_[i];
      one.payload.clear();
      auto done =
          compressor().encode(inputs[i], rounds[i], one.payload, last && traits.sparse ? &one.entries : nullptr);
      const BytesView result = one.payload;
      if (done && !last) done = compressor().absorb(std::span(&result, 1), rounds[i]);
      if (!done) return of_gradient(done.error(), gradients[one.index]);
    }
  }
  return {};
}

Result<void> TensorCoder::write_gradient(std::uint32_t tensor, const at::Tensor& gradient, const Turn& turn,
                                         Bytes& out) {
  auto& memory = *compression_.memory;
  Round round = round_of(turn, tensor);
  if (travels_as_is(gradient, round)) {
    const bool taken = compressor().takes(gradient.sizes());
    const auto compensated = taken ? memory.compensate_dense(gradient, round) : Result<at::Tensor>(gradient);
    if (!compensated) return compensated.error();
    // What it would make of the mean it makes of this worker's part of it, which is the same in the mean of all.
    at::Tensor part = compensated->clone();
    if (auto done = memory.average_dense(part, round); !done) return done;
    append_as_is(out, part);
    return {};
  }
  const auto compensated = memory.compensate(gradient, round);
  if (!compensated) return compensated.error();
  round.peaks = memory.peaks(round);
  if (auto encoded = encode(*compensated, round, out); !encoded) return encoded;
  round.peaks = {};
  round.pass = static_cast<std::uint32_t>(compressor().traits().passes.size() - 1);
  at::Tensor shape = gradient;
  const bool sparse = compressor().traits().sparse;
  return memory.update(round, sparse ? Sent(entries_) : Sent(compressor(), payload_, round), shape);
}

Result<std::uint64_t> TensorCoder::read_gradient(Reader& body, std::uint32_t tensor, const Turn& turn, float weight,
                                                 bool fresh, Mean& mean) {
  Round round = round_of(turn, tensor);
  const auto sum = flat(mean.tensor);
  if (travels_as_is(mean.tensor, round)) {
    mean.sparse = false;
    const auto values = take_as_is(body, mean.tensor);
    if (!values) return values.error();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      float value = 0;
      std::memcpy(&value, values->data() + i * sizeof(float), sizeof(float));
      sum[i] += weight * value;
    }
    return sum.size();
  }
  const auto payload = take_payload(body);
  if (!payload) return payload.error();
  const auto traits = compressor().traits();
  round.pass = static_cast<std::uint32_t>(traits.passes.size() - 1);
  const bool listed = traits.sparse && traits.passes.back() == Reduction::gather;
  if (!listed) {
    mean.sparse = false;
    const auto added = compressor().decode_add(*payload, round, weight, mean.tensor);
    return added ? Result<std::uint64_t>(sum.size()) : added.error();
  }
  if (auto read = compressor().read_entries(*payload, round, sum.size(), entries_); !read) return read.error();
  add_selection(weight, entries_, sum);
  mean.sparse = fresh || mean.sparse;
  if (mean.sparse) mean.positions.insert(mean.positions.end(), entries_.positions.begin(), entries_.positions.end());
  return entries_.size();
}

Result<void> TensorCoder::write_difference(std::uint32_t tensor, const at::Tensor& model, at::Tensor& copy,
                                           const Turn& turn, std::uint64_t pushed, Bytes& out) {
  Round round = round_of(turn, tensor);
  const float factor = factor_of_difference(model, round);
  if (factor == 0) {
    append_as_is(out, model);
    copy.copy_(model);
    return {};
  }
  const at::Tensor difference = at::sub(model, copy);
  if (chooses_difference(model)) {
    auto encoded = encode_largest(difference, round, std::max<std::uint64_t>(pushed, 1), out);
    if (encoded) add_selection(factor, entries_, flat(copy));
    return encoded;
  }
  if (auto encoded = encode(difference, round, out); !encoded) return encoded;
  round.pass = static_cast<std::uint32_t>(compressor().traits().passes.size() - 1);
  return compressor().decode_add(payload_, round, factor, copy);
}

Result<void> TensorCoder::read_difference(Reader& body, std::uint32_t tensor, const Turn& turn, at::Tensor& copy) {
  Round round = round_of(turn, tensor);
  const float factor = factor_of_difference(copy, round);
  if (factor == 0) return read_as_is(body, copy);
  if (!compressor().decodes_on(copy.device())) {
    at::Tensor values = on_host(copy);
    auto read = read_difference(body, tensor, turn, values);
    if (read) copy.copy_(values);
    return read;
  }
  const auto payload = take_payload(body);
  if (!payload) return payload.error();
  if (chooses_difference(copy)) {
    const auto entries = static_cast<std::uint32_t>(copy.numel());
    if (auto read = compressor().read_part(*payload, entries, entries_); !read) return read;
    return Sent(entries_).add_to(copy, factor);
  }
  round.pass = static_cast<std::uint32_t>(compressor().traits().passes.size() - 1);
  return compressor().decode_add(*payload, round, factor, copy);
}

/// What goes up to a device goes behind what is in the calling thread's current stream, and nobody waits for it.
Result<void> TensorCoder::read_as_is(Reader& body, at::Tensor& copy) {
  const auto bytes = take_as_is(body, copy);
  if (!bytes) return bytes.error();
  at::Tensor values = copy.is_cpu() ? copy : at::empty(copy.sizes(), host_memory_for(copy.device()));
  if (!bytes->empty()) std::memcpy(values.data_ptr<float>(), bytes->data(), bytes->size());
  if (!copy.is_cpu()) copy.copy_(values, /*non_blocking=*/true);
  return {};
}

}  // namespace weir::training::servers
