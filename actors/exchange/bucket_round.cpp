#include "actors/exchange/bucket_round.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"

namespace weir::actors {
namespace {

using collectives::Buffer;
using collectives::Element;
using collectives::ReduceOp;
using compressors::Reduction;
using compressors::Round;
using compressors::Sent;

/// A gathered payload may be larger than the dense gradient by this factor: at density 1, positions cost as much as
/// values.
constexpr std::size_t payload_growth_max = 2;
constexpr std::size_t payload_slack_bytes = 64 * 1024;

std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// Makes all entries zero.
void clear(Mean& mean) {
  if (mean.sparse) {
    const auto values = floats_of(mean.tensor);
    for (const auto position : mean.positions) values[position] = 0;
  } else {
    mean.tensor.zero_();
  }
  mean.positions.clear();
}

void append_positions(const compressors::Selection& entries, Mean& mean) {
  mean.positions.insert(mean.positions.end(), entries.positions.begin(), entries.positions.end());
}

Element element_of(Reduction reduction) {
  if (reduction == Reduction::sum_fp16) return Element::float16;
  if (reduction == Reduction::sum_bf16) return Element::bfloat16;
  return Element::float32;
}

}  // namespace

BucketRound::BucketRound(const RoundSetting& setting, const Bucket& bucket, bool votes)
    : setting_(setting), bucket_(bucket), with_votes_(votes) {
  std::int64_t entries = 0;
  for (const auto p : bucket.parameters) entries += setting.parameters[p].tensor.numel();
  gathered_.bytes_max = payload_growth_max * static_cast<std::size_t>(entries) * sizeof(float) + payload_slack_bytes;
  if (bucket.coded) return;
  dense_ = at::empty({entries + (votes ? 1 : 0)}, at::kFloat);
  std::int64_t begin = 0;
  for (const auto p : bucket.parameters) {
    const auto& tensor = setting.parameters[p].tensor;
    setting.means[p].tensor = dense_.narrow(0, begin, tensor.numel()).view(tensor.sizes());
    begin += tensor.numel();
  }
}

void BucketRound::begin(const Step& step) {
  step_ = step;
  dense_parameters_.clear();
  coded_parameters_.clear();
  for (const auto p : bucket_.parameters) {
    const bool coded = bucket_.coded && !setting_.compression.compressor->goes_dense(
                                            setting_.parameters[p].tensor.sizes(), round_of(p, 0));
    (coded ? coded_parameters_ : dense_parameters_).push_back(p);
  }
  passes_.clear();
  if (!coded_parameters_.empty()) passes_ = setting_.compression.compressor->traits().passes;
  if (!bucket_.coded) return;
  std::int64_t entries = 0;
  for (const auto p : dense_parameters_) entries += setting_.parameters[p].tensor.numel();
  if (!dense_.defined() || dense_.numel() != entries) dense_ = at::empty({entries}, at::kFloat);
}

Buffer BucketRound::dense() { return {std::as_writable_bytes(floats_of(dense_)), Element::float32}; }

Result<void> BucketRound::gather_dense() {
  const float share = 1 / static_cast<float>(setting_.world);
  const auto all = floats_of(dense_);
  std::size_t begin = 0;
  for (const auto p : dense_parameters_) {
    at::Tensor gradient = gradient_of(p);
    if (bucket_.coded) {
      auto compensated = setting_.compression.memory->compensate_dense(gradient, round_of(p, 0));
      if (!compensated) return of_parameter(compensated.error(), p);
      gradient = std::move(*compensated);
    }
    const auto values = floats_of(gradient);
    if (!compressors::copy_scaled(share, values, all.subspan(begin, values.size()))) {
      return of_parameter(compressors::non_finite(round_of(p, 0), values), p);
    }
    begin += values.size();
  }
  if (with_votes_) all.back() = step_.vote;
  return {};
}

Result<void> BucketRound::conclude_dense() {
  const auto all = floats_of(dense_);
  if (with_votes_) votes_sum_ = all.back();
  std::size_t begin = 0;
  for (const auto p : dense_parameters_) {
    Mean& mean = setting_.means[p];
    const auto values = floats_of(mean.tensor);
    if (bucket_.coded) std::ranges::copy(all.subspan(begin, values.size()), values.begin());
    begin += values.size();
    mean.sparse = false;
    auto turned = setting_.compression.memory->average_dense(mean.tensor, round_of(p, 0));
    if (!turned) return turned.error();
  }
  return {};
}

Result<void> BucketRound::encode(std::uint32_t pass) {
  if (pass == 0) {
    compensated_.clear();
    for (const auto p : coded_parameters_) {
      auto compensated = setting_.compression.memory->compensate(gradient_of(p), round_of(p, 0));
      if (!compensated) return of_parameter(compensated.error(), p);
      compensated_.push_back(std::move(*compensated));
    }
  }
  const bool last = pass + 1 == passes_.size();
  const bool sparse = setting_.compression.compressor->traits().sparse;
  own_entries_.resize(coded_parameters_.size());
  payload_.clear();
  ends_.clear();
  for (std::size_t i = 0; i < coded_parameters_.size(); ++i) {
    const auto p = coded_parameters_[i];
    auto encoded = setting_.compression.compressor->encode(compensated_[i], round_of(p, pass), payload_,
                                                           last && sparse ? &own_entries_[i] : nullptr);
    if (!encoded) return of_parameter(encoded.error(), p);
    ends_.push_back(payload_.size());
  }
  const bool kept = last && !sparse && setting_.compression.memory->traits().reads_sent;
  own_sums_.clear();
  if (kept && passes_[pass] != Reduction::gather) own_sums_ = payload_;
  return {};
}

Buffer BucketRound::sums(std::uint32_t pass) { return {std::span(payload_), element_of(passes_[pass])}; }

ReduceOp BucketRound::operation(std::uint32_t pass) const {
  return passes_[pass] == Reduction::max ? ReduceOp::max : ReduceOp::sum;
}

Result<void> BucketRound::decode(std::uint32_t pass) {
  return passes_[pass] == Reduction::gather ? decode_gathered(pass) : decode_sums(pass);
}

Result<void> BucketRound::decode_sums(std::uint32_t pass) {
  for (std::size_t i = 0; i < coded_parameters_.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    const BytesView sum = BytesView(payload_).subspan(begin, ends_[i] - begin);
    if (auto taken = take(i, std::span(&sum, 1), pass); !taken) return taken.error();
  }
  return {};
}

Result<void> BucketRound::decode_gathered(std::uint32_t pass) {
  streams_.assign(gathered_.payloads.begin(), gathered_.payloads.end());
  results_.resize(streams_.size());
  for (std::size_t i = 0; i < coded_parameters_.size(); ++i) {
    for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
      auto payload = compressors::take_payload(streams_[rank]);
      if (!payload) return payload.error().within("payload of rank " + std::to_string(rank));
      results_[rank] = *payload;
    }
    if (auto taken = take(i, results_, pass); !taken) return taken.error();
  }
  for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
    if (!streams_[rank].empty()) {
      return Error{Errc::malformed, "rank " + std::to_string(rank) + " sent more than the payloads of its bucket"};
    }
  }
  return {};
}

/// Passes the results of a pass for one tensor to the compressor and, in the last pass, makes the mean of them.
Result<void> BucketRound::take(std::size_t index, std::span<const BytesView> results, std::uint32_t pass) {
  const auto parameter = coded_parameters_[index];
  auto& [compressor, memory] = setting_.compression;
  const Round round = round_of(parameter, pass);
  if (auto absorbed = compressor->absorb(results, round); !absorbed) return of_parameter(absorbed.error(), parameter);
  if (pass + 1 < passes_.size()) return {};
  if (auto done = average(index, results, round); !done) return done;
  at::Tensor& mean = setting_.means[parameter].tensor;
  compressor->conclude(mean, round);
  const bool sparse = compressor->traits().sparse;
  const auto sent = sparse ? Sent(own_entries_[index]) : Sent(*compressor, own_payload(index), round);
  return memory->update(round, sent, mean);
}

/// Makes the mean of what the ranks sent.
Result<void> BucketRound::average(std::size_t index, std::span<const BytesView> results, Round round) {
  auto& compressor = *setting_.compression.compressor;
  const auto parameter = coded_parameters_[index];
  const auto traits = compressor.traits();
  Mean& mean = setting_.means[parameter];
  clear(mean);
  mean.sparse = traits.sparse && !traits.votes && !setting_.compression.memory->traits().changes_mean;
  const float share = 1 / static_cast<float>(setting_.world);
  const bool gathered = passes_.back() == Reduction::gather;
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    if (gathered) round.rank = rank;
    const bool own = rank == round_of(parameter, 0).rank;
    Result<void> added;
    if (!traits.sparse || !gathered) {
      added = compressor.decode_add(results[rank], round, share, mean.tensor);
    } else {
      if (!own) added = compressor.read_entries(results[rank], round, floats_of(mean.tensor).size(), entries_);
      const auto& entries = own ? own_entries_[index] : entries_;
      if (added) add_selection(share, entries, floats_of(mean.tensor));
      if (added && mean.sparse) append_positions(entries, mean);
    }
    if (!added) return of_parameter(added.error(), parameter).within("rank " + std::to_string(rank));
  }
  if (mean.sparse && !gathered) append_positions(own_entries_[index], mean);
  return {};
}

BytesView BucketRound::own_payload(std::size_t index) const {
  const bool summed = passes_.back() != Reduction::gather;
  if (summed && own_sums_.empty()) return {};
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
  return BytesView(summed ? own_sums_ : payload_).subspan(begin, ends_[index] - begin);
}

Round BucketRound::round_of(std::uint32_t parameter, std::uint32_t pass) const {
  return {.seed = setting_.seed,
          .step = step_.number,
          .epoch = step_.epoch,
          .epochs_total = setting_.epochs_total,
          .learning_rate = step_.learning_rate,
          .tensor = parameter,
          .rank = setting_.rank,
          .world = setting_.world,
          .pass = pass};
}

at::Tensor BucketRound::gradient_of(std::uint32_t parameter) const {
  const auto& tensor = setting_.parameters[parameter].tensor;
  const auto& gradient = tensor.grad();
  return gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor);
}

Error BucketRound::of_parameter(const Error& error, std::uint32_t parameter) const {
  return error.within("gradient of " + setting_.parameters[parameter].name);
}

}  // namespace weir::actors
