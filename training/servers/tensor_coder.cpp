#include "training/servers/tensor_coder.hpp"

#include <ATen/ops/sub.h>

#include <algorithm>
#include <cstring>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/values.hpp"
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
  if (factor == 0) {
    const auto values = take_as_is(body, copy);
    if (!values) return values.error();
    std::memcpy(copy.data_ptr<float>(), values->data(), values->size());
    return {};
  }
  const auto payload = take_payload(body);
  if (!payload) return payload.error();
  if (chooses_difference(copy)) {
    const auto values = flat(copy);
    const auto read = compressor().read_part(*payload, static_cast<std::uint32_t>(values.size()), entries_);
    if (read) add_selection(factor, entries_, values);
    return read;
  }
  round.pass = static_cast<std::uint32_t>(compressor().traits().passes.size() - 1);
  return compressor().decode_add(*payload, round, factor, copy);
}

}  // namespace weir::training::servers
