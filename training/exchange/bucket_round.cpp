#include "training/exchange/bucket_round.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compressors/device/codes.hpp"
#include "compressors/device/device.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

using collectives::Buffer;
using collectives::Element;
using collectives::ReduceOp;
using compressors::flat;

bool ends_gathered(const compressors::Compressor& compressor) {
  const auto passes = compressor.traits().passes;
  return !passes.empty() && passes.back() == compressors::Reduction::gather;
}

/// What is made of a bucket on the device that it lies on, to be added up there or on the host; nothing if it is not.
std::optional<at::ScalarType> numbers_there(const RoundSetting& setting, const Bucket& bucket) {
  if (bucket.parameters.empty()) return std::nullopt;
  if (setting.sums_there) {
    const bool sent = bucket.coded && !setting.host_sums_there;
    return sent ? setting.compression.compressor->sent_numbers() : at::kFloat;
  }
  const at::Device device = setting.parameters[bucket.parameters.front()].tensor.device();
  const bool makes =
      !bucket.coded && compressors::device::has_kernels(device) && setting.compression.memory->codes_on(device);
  return makes ? std::optional(at::kFloat) : std::nullopt;
}

/// Where that is added up.
SumPlace place_of_sums(const RoundSetting& setting) {
  if (setting.sums_there) return SumPlace::device;
  if (!setting.host_sums_there) return SumPlace::host;
  return setting.encodes && setting.world > 1 ? SumPlace::both : SumPlace::device;
}

}  // namespace

BucketRound::BucketRound(const RoundSetting& setting, const Bucket& bucket, bool votes, std::uint32_t first_piece)
    : setting_(setting),
      bucket_(bucket),
      with_votes_(votes),
      gathering_(std::make_unique<GatheringRound>(setting, bucket)),
      coded_(gathering_.get()) {
  std::int64_t entries = 0;
  for (const auto p : bucket.parameters) {
    entries += setting.parameters[p].tensor.numel();
    host_ends_.push_back(static_cast<std::size_t>(entries) * sizeof(float));
  }
  if (const auto numbers = numbers_there(setting, bucket)) {
    const at::Device device = setting.parameters[bucket.parameters.front()].tensor.device();
    device_sum_ = std::make_unique<DeviceSum>(device, *numbers, entries, votes, place_of_sums(setting));
    put_means_into(device_sum_->means());
    return;
  }
  if (!bucket.coded) {
    dense_ = at::empty({entries + (votes ? 1 : 0)}, at::kFloat);
    put_means_into(dense_);
    return;
  }
  if (setting.owners > 0 && ends_gathered(*setting.compression.compressor)) {
    if (setting.regions) {
      by_owners_ = std::make_unique<SplitRound>(setting, bucket);
    } else if (setting.hops) {
      by_owners_ = std::make_unique<HopsRound>(setting, bucket, first_piece);
    } else {
      by_owners_ = std::make_unique<OwnersRound>(setting, bucket, setting.owners, first_piece);
    }
    piece_count_ = by_owners_->pieces().size();
  }
  if (setting.by_hosts) {
    const at::Device device = setting.parameters[bucket.parameters.front()].tensor.device();
    if (setting.host_sums_there) {
      host_sum_ = std::make_unique<DeviceSum>(device, at::kFloat, entries, /*with_vote=*/false, SumPlace::device);
      host_sums_ = host_sum_->means();
      host_means_ = at::zeros({entries}, at::TensorOptions(at::kFloat).device(device));
    } else {
      host_sums_ = at::empty({entries}, at::kFloat);
      host_means_ = at::zeros({entries}, host_memory_for(device));
    }
    put_means_into(host_means_);
    std::int64_t begin = 0;
    for (const auto p : bucket.parameters) {
      const auto& tensor = setting.parameters[p].tensor;
      host_sum_of_[p] = host_sums_.narrow(0, begin, tensor.numel()).view(tensor.sizes());
      begin += tensor.numel();
    }
  }
}

/// Makes the means of the parameters parts of one tensor.
void BucketRound::put_means_into(const at::Tensor& flat) {
  std::int64_t begin = 0;
  for (const auto p : bucket_.parameters) {
    const auto& tensor = setting_.parameters[p].tensor;
    setting_.means[p].tensor = flat.narrow(0, begin, tensor.numel()).view(tensor.sizes());
    begin += tensor.numel();
  }
}

/// Has the means of these parameters lie in the host's memory, unless they do already. Those that come to a host's
/// devices keep their place there in HostCopies.
void BucketRound::find_memory_for(std::span<const std::uint32_t> parameters) {
  for (const auto p : parameters) {
    at::Tensor& mean = setting_.means[p].tensor;
    const at::Tensor& tensor = setting_.parameters[p].tensor;
    if (!mean.defined() || !mean.is_cpu()) mean = at::zeros(tensor.sizes(), host_memory_for(tensor.device()));
  }
}

/// Who takes the bucket through a step of such a route.
const CodedRound& BucketRound::round_for(const Route& route) const {
  return route.by_owners && by_owners_ ? *by_owners_ : *gathering_;
}

/// Whether a parameter is encoded in such a step, and not averaged as it is.
bool BucketRound::encodes(const Step& step, const Route& route, std::uint32_t parameter) const {
  if (!bucket_.coded || device_sum_ || route.form != Form::coded) return false;
  auto round = setting_.round(step, parameter);
  round.by_owners = round_for(route).by_owners();
  return !setting_.compression.compressor->goes_dense(setting_.parameters[parameter].tensor.sizes(), round);
}

bool BucketRound::works_in_place(const Step& step, const Route& route, std::uint32_t parameter) const {
  return device_sum_ || host_sum_ || encodes_there(step, route, parameter);
}

/// Whether a parameter is encoded where it lies.
bool BucketRound::encodes_there(const Step& step, const Route& route, std::uint32_t parameter) const {
  // Sums over hops are made in the host's memory, and those within a host unless its devices make them.
  if ((by_hosts() && !host_sum_) || round_for(route).by_hops()) return false;
  const at::Device device = setting_.parameters[parameter].tensor.device();
  return setting_.compression.codes_on(device) && encodes(step, route, parameter);
}

/// Whether the means of the parameters that are encoded in this step are made where these lie.
bool BucketRound::makes_means_there() const {
  if (setting_.copies == nullptr || coded_parameters_.empty()) return false;
  const std::uint32_t parameter = coded_parameters_.front();
  return encodes_there(step_, route_, parameter) &&
         setting_.compression.compressor->decodes_on(setting_.parameters[parameter].tensor.device());
}

bool BucketRound::has_mean_there(std::uint32_t parameter) const {
  return device_sum_ || host_sum_ || decodes_there(parameter);
}

/// Whether its payloads were decoded where it lies.
bool BucketRound::decodes_there(std::uint32_t parameter) const {
  return coded_->makes_means_there() && std::ranges::find(coded_parameters_, parameter) != coded_parameters_.end();
}

void BucketRound::begin(const Step& step, const Route& route) {
  if (is_of_device() && !bucket_.parameters.empty()) setting_.copies->take_up(bucket_.parameters.front());
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  step_ = step;
  route_ = route;
  coded_ = &round_for(route) == by_owners_.get() ? by_owners_.get() : gathering_.get();
  rounded_ = bucket_.coded && route.form == Form::bfloat16;
  dense_parameters_.clear();
  dense_ends_.clear();
  coded_parameters_.clear();
  std::size_t element_bytes = rounded_ ? sizeof(BFloat16) : sizeof(float);
  if (device_sum_) element_bytes = device_sum_->number_bytes();
  std::size_t entries = 0;
  for (const auto p : bucket_.parameters) {
    if (encodes(step, route, p)) {
      coded_parameters_.push_back(p);
      continue;
    }
    dense_parameters_.push_back(p);
    entries += static_cast<std::size_t>(setting_.parameters[p].tensor.numel());
    dense_ends_.push_back(entries * element_bytes);
  }
  // What goes dense does not pass its owners, even over a topology with owners, and sends all that the memory has.
  if (by_owners_) {
    const bool all = coded_ != by_owners_.get();
    by_owners_->leave(step, all ? bucket_.parameters : dense_parameters_);
  }
  const bool there = makes_means_there();
  const bool adds_up_by_regions = setting_.regions && coded_ == by_owners_.get();  // in the memory of means on the host
  // Ranks that only get copies of means, where their devices are, make none.
  const bool makes_means = !device_sum_ && (setting_.encodes || !host_sum_);
  if (makes_means) find_memory_for(dense_parameters_);
  if (makes_means && (!there || adds_up_by_regions)) find_memory_for(coded_parameters_);
  coded_->begin(step, coded_parameters_, there);
  if (!bucket_.coded || device_sum_) return;
  if (rounded_) dense_rounded_.resize(entries);
  const auto length = static_cast<std::int64_t>(entries);
  if (!dense_.defined() || dense_.numel() != length) dense_ = at::empty({length}, at::kFloat);
}

// By hosts.

Result<void> BucketRound::gather_host() {
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  if (device_sum_) return gather_there(*device_sum_, share());
  if (host_sum_) return gather_there(*host_sum_, setting_.host_share);
  // The mean of the hosts' sums is then the mean of all ranks' gradients.
  const float share = setting_.host_share;
  const auto all = flat(host_sums_);
  std::size_t begin = 0;
  for (const auto p : bucket_.parameters) {
    const at::Tensor gradient = value_of(p);
    const auto values = flat(gradient);
    if (!compressors::copy_scaled(share, values, all.subspan(begin, values.size()))) {
      return setting_.of_parameter(compressors::non_finite(setting_.round(step_, p), values), p);
    }
    begin += values.size();
  }
  return {};
}

Buffer BucketRound::host_sums() {
  if (device_sum_) return device_sum_->numbers_there();
  if (host_sum_) return host_sum_->numbers_there();
  return {std::as_writable_bytes(flat(host_sums_)), Element::float32};
}

ReduceOp BucketRound::host_reduction() const { return device_sum_ ? reduction() : ReduceOp::sum; }

/// On a leader: brings those up that were made on the host, where the others are made on a device.
void BucketRound::put_host_means() {
  if (!host_sum_) return;
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  for (const auto p : bucket_.parameters) {
    if (decodes_there(p)) continue;
    Mean& mean = setting_.copies->means()[p];
    mean.tensor.copy_(setting_.means[p].tensor, /*non_blocking=*/true);
    mean.positions_there.reset();
  }
}

Buffer BucketRound::host_means() {
  if (device_sum_) return device_sum_->numbers_there();
  if (!host_sum_) return {std::as_writable_bytes(flat(host_means_)), Element::float32};
  Buffer means = host_sum_->numbers_there();
  means.bytes = {static_cast<std::byte*>(host_means_.data_ptr()), host_means_.nbytes()};
  return means;
}

Result<void> BucketRound::take_host_means() {
  if (device_sum_) {
    const auto in_stream = setting_.in_stream_of(bucket_.parameters);
    return conclude_there();
  }
  if (setting_.encodes || host_sum_) return {};
  for (const auto p : bucket_.parameters) {
    setting_.means[p].sparse = false;
    setting_.means[p].positions.clear();
  }
  return {};
}

// Dense.

Buffer BucketRound::dense() {
  if (device_sum_) return device_sum_->numbers();
  if (rounded_) return {std::as_writable_bytes(std::span(dense_rounded_)), Element::bfloat16};
  return {std::as_writable_bytes(flat(dense_)), Element::float32};
}

/// Of each value, this much is added up.
float BucketRound::share() const {
  if (reduction() != ReduceOp::sum) return 1;
  return 1 / static_cast<float>(bucket_.coded && !device_sum_ ? setting_.world : setting_.ranks);
}

Result<void> BucketRound::gather_dense() {
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  if (device_sum_ && by_hosts()) {
    device_sum_->bring_down();
    return {};
  }
  if (device_sum_) return gather_there(*device_sum_, share());
  const auto all = flat(dense_);
  std::size_t begin = 0;
  for (const auto p : dense_parameters_) {
    at::Tensor gradient = by_hosts() ? on_host(host_sum_of_.at(p)) : value_of(p);
    if (bucket_.coded) {
      auto compensated = setting_.compression.memory->compensate_dense(gradient, setting_.round(step_, p));
      if (!compensated) return setting_.of_parameter(compensated.error(), p);
      gradient = std::move(*compensated);
    }
    const auto values = flat(gradient);
    if (!compressors::copy_scaled(share(), values, all.subspan(begin, values.size()))) {
      return setting_.of_parameter(compressors::non_finite(setting_.round(step_, p), values), p);
    }
    begin += values.size();
  }
  if (rounded_) round_to(all, std::span(dense_rounded_));
  if (with_votes_) all.back() = vote();
  return {};
}

/// One is enough: where the smallest value counts, that of a rank that wants to stop is the smallest.
float BucketRound::vote() const { return reduction() == ReduceOp::min ? -step_.vote : step_.vote; }

/// Of all parameters, on their device.
Result<void> BucketRound::gather_there(DeviceSum& sum, float share) {
  std::vector<at::Tensor> values;
  for (const auto p : bucket_.parameters) values.push_back(value_of(p));
  const auto gathered = sum.gather(values, share, vote());
  if (!gathered) return gathered.error();
  for (std::size_t i = 0; !*gathered && i < values.size(); ++i) {
    const auto p = bucket_.parameters[i];
    const auto finite = compressors::device::all_finite(values[i]);
    if (!finite) return finite.error();
    if (!*finite) return setting_.of_parameter(compressors::non_finite(setting_.round(step_, p), values[i]), p);
  }
  return {};
}

collectives::ReduceOp BucketRound::reduction() const {
  if (bucket_.averaged) return ReduceOp::sum;
  if (setting_.aggregation == Aggregation::min) return ReduceOp::min;
  return setting_.aggregation == Aggregation::max ? ReduceOp::max : ReduceOp::sum;
}

Result<void> BucketRound::conclude_dense() {
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  if (device_sum_ && by_hosts()) {
    device_sum_->bring_up();
    return {};
  }
  if (device_sum_) return conclude_there();
  const auto all = flat(dense_);
  if (with_votes_) votes_sum_ = std::abs(all.back());
  if (rounded_) {
    std::ranges::fill(all, 0.0F);
    add_scaled(1, std::span<const BFloat16>(dense_rounded_), all);
  }
  std::size_t begin = 0;
  for (const auto p : dense_parameters_) {
    Mean& mean = setting_.means[p];
    const auto values = flat(mean.tensor);
    if (bucket_.coded) std::ranges::copy(all.subspan(begin, values.size()), values.begin());
    begin += values.size();
    mean.sparse = false;
    auto turned = setting_.compression.memory->average_dense(mean.tensor, setting_.round(step_, p));
    if (!turned) return turned.error();
  }
  return {};
}

Result<void> BucketRound::conclude_there() {
  if (auto concluded = device_sum_->conclude(); !concluded) return concluded;
  if (with_votes_) votes_sum_ = std::abs(device_sum_->votes());
  std::vector<at::Tensor> means;
  std::vector<compressors::Round> rounds;
  for (const auto p : dense_parameters_) {
    means.push_back(setting_.means[p].tensor);
    rounds.push_back(setting_.round(step_, p));
  }
  return setting_.compression.memory->average_dense_all(means, rounds);
}

// Coded.

Result<void> BucketRound::encode(std::uint32_t pass) {
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  if (pass == 0) {
    for (const auto p : coded_parameters_) {
      at::Tensor gradient = by_hosts() ? host_sum_of_.at(p) : value_of(p);
      if (host_sum_ && !encodes_there(step_, route_, p)) gradient = on_host(gradient);
      gradients_.push_back(std::move(gradient));
    }
  }
  auto encoded = coded_->encode(pass, gradients_);
  gradients_.clear();
  return encoded;
}

void BucketRound::leave_what_is_owned(const Step& step) {
  if (!by_owners_) return;
  const auto in_stream = setting_.in_stream_of(bucket_.parameters);
  by_owners_->leave(step, bucket_.parameters);
}

void BucketRound::save(std::vector<NamedTensor>& state) const {
  if (by_owners_) by_owners_->save(state);
}

Result<void> BucketRound::restore(std::span<const NamedTensor> state) {
  return by_owners_ ? by_owners_->restore(state) : Result<void>();
}

at::Tensor BucketRound::value_of(std::uint32_t parameter) const {
  const at::Tensor& value = setting_.values[parameter];
  if (value.defined()) {
    if (setting_.copies != nullptr && value.is_cpu()) setting_.copies->wait(parameter);
    return value.to(at::kFloat).contiguous();
  }
  const at::Tensor& like = setting_.parameters[parameter].tensor;
  const at::Device place = works_in_place(step_, route_, parameter) ? like.device() : at::Device(at::kCPU);
  return at::zeros(like.sizes(), at::TensorOptions(at::kFloat).device(place));
}

}  // namespace weir::training
