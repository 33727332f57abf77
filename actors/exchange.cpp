#include "actors/exchange.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/half.hpp"
#include "base/xxh3.hpp"
#include "collectives/ring.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"

namespace weir::actors {
namespace {

using compressors::Reduction;
using compressors::Round;

/// A gathered payload may be larger than the dense gradient by this factor: at density 1, positions cost as much as
/// values.
constexpr std::size_t payload_growth_max = 2;
constexpr std::size_t payload_slack_bytes = 64 * 1024;

/// Adds the time of a scope to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<ParameterSize> sizes_of(const std::vector<NamedTensor>& parameters,
                                    const compressors::Compression& compression) {
  // A lossless sum without a memory is what a plain bucket does anyway, without copying.
  const auto traits = compression.compressor->traits();
  const bool nothing_to_do =
      traits.lossless && traits.passes == std::vector{Reduction::sum} && compression.memory->name() == "none";
  std::vector<ParameterSize> sizes;
  for (const auto& [name, tensor] : parameters) {
    sizes.push_back({static_cast<std::uint64_t>(tensor.numel()) * sizeof(float),
                     !nothing_to_do && compression.compressor->takes(tensor.sizes())});
  }
  return sizes;
}

std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// A summed payload as an array of numbers.
template <class Number>
std::span<Number> numbers_in(Bytes& payload) {
  return {reinterpret_cast<Number*>(payload.data()), payload.size() / sizeof(Number)};
}

}  // namespace

/// Tells the exchange that a gradient is complete.
class Exchange::ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  ReadyHook(Exchange& exchange, std::uint32_t parameter) : exchange_(exchange), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    exchange_.on_ready(parameter_);
    return outputs;
  }

 private:
  Exchange& exchange_;
  std::uint32_t parameter_;
};

/// The autograd node that accumulates a parameter's gradient. A parameter holds only a weak reference to it: this
/// object keeps it, and our hook, alive.
struct Exchange::Hook {
  std::shared_ptr<torch::autograd::Node> accumulator;
};

Exchange::Exchange(std::vector<NamedTensor> parameters, compressors::Compression compression,
                   collectives::Communicator& group, Options options)
    : parameters_(std::move(parameters)),
      compression_(std::move(compression)),
      group_(group),
      options_(options),
      buckets_(plan_buckets(sizes_of(parameters_, compression_), options_.bucket_sizes)),
      bucket_of_(parameters_.size()),
      flats_(buckets_.size()),
      means_(parameters_.size()),
      ready_(parameters_.size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto& bucket = buckets_[b];
    std::int64_t total = b + 1 == buckets_.size() ? 1 : 0;
    for (const auto p : bucket.parameters) {
      bucket_of_[p] = static_cast<std::uint32_t>(b);
      total += parameters_[p].tensor.numel();
      if (bucket.coded) means_[p] = at::zeros(parameters_[p].tensor.sizes(), at::kFloat);
    }
    if (bucket.coded) continue;
    flats_[b] = at::zeros({total}, at::kFloat);
    std::int64_t start = 0;
    for (const auto p : bucket.parameters) {
      const auto& tensor = parameters_[p].tensor;
      means_[p] = flats_[b].narrow(0, start, tensor.numel()).view(tensor.sizes());
      start += tensor.numel();
    }
  }
  for (std::uint32_t p = 0; p < parameters_.size(); ++p) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[p].tensor);
    accumulator->add_post_hook(std::make_unique<ReadyHook>(*this, p));
    hooks_.push_back(std::make_unique<Hook>(Hook{std::move(accumulator)}));
  }
  handed_over_ = through_ = buckets_.size();
  thread_ = std::jthread([this](const std::stop_token& stopping) { communicate(stopping); });
}

Exchange::~Exchange() = default;

void Exchange::begin(const Step& step) {
  const std::lock_guard lock(mutex_);
  ensure(through_ == buckets_.size() || failure_, "a step begins before the last one is finished");
  for (const auto& parameter : parameters_) at::Tensor(parameter.tensor).mutable_grad().reset();
  std::fill(ready_.begin(), ready_.end(), false);
  missing_.clear();
  for (const auto& bucket : buckets_) missing_.push_back(bucket.parameters.size());
  next_ = handed_over_ = through_ = 0;
  step_ = step;
  agreed_ = {};
}

void Exchange::on_ready(std::uint32_t parameter) {
  if (ready_[parameter]) return;
  ready_[parameter] = true;
  --missing_[bucket_of_[parameter]];
  const auto before = next_;
  // The last bucket waits for finish(): it may have no parameters, and its vote ends the step.
  while (next_ + 1 < buckets_.size() && missing_[next_] == 0) ++next_;
  if (next_ == before) return;
  const std::lock_guard lock(mutex_);
  handed_over_ = next_;
  changed_.notify_all();
}

Result<Exchange::Agreed> Exchange::finish() {
  double wait = 0;
  std::unique_lock lock(mutex_);
  handed_over_ = next_ = buckets_.size();
  changed_.notify_all();
  {
    const Stopwatch watch(wait);
    changed_.wait(lock, [this] { return through_ == buckets_.size() || failure_; });
  }
  if (failure_) return *failure_;
  agreed_.times.wait = wait;
  return agreed_;
}

std::uint64_t Exchange::dense_bytes_per_step() const {
  std::uint64_t entries = 0;
  for (const auto& parameter : parameters_) entries += static_cast<std::uint64_t>(parameter.tensor.numel());
  const std::uint64_t ranks = group_.size();
  return 2 * (ranks - 1) * entries * sizeof(float) / ranks;
}

void Exchange::communicate(const std::stop_token& stopping) {
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stopping, [this] { return through_ < handed_over_ && !failure_; })) {
    lock.unlock();
    Result<void> done;
    try {
      done = run(through_);
    } catch (const std::exception& thrown) {
      done = Error{Errc::internal, std::string("exchange: ") + thrown.what()};
    }
    lock.lock();
    if (done) {
      ++through_;
    } else {
      failure_ = done.error();
    }
    changed_.notify_all();
  }
}

Round Exchange::round_of(std::uint32_t parameter, std::uint32_t pass) const {
  return {.seed = options_.seed,
          .step = step_.number,
          .epoch = step_.epoch,
          .epochs_total = options_.epochs_total,
          .learning_rate = step_.learning_rate,
          .tensor = parameter,
          .rank = group_.rank(),
          .world = group_.size(),
          .pass = pass};
}

at::Tensor Exchange::gradient_of(std::uint32_t parameter) const {
  const auto& gradient = parameters_[parameter].tensor.grad();
  return gradient.defined() ? gradient.contiguous() : at::zeros_like(parameters_[parameter].tensor);
}

Result<void> Exchange::run(std::size_t bucket) {
  auto done = buckets_[bucket].coded ? run_coded(buckets_[bucket]) : run_plain(bucket);
  if (!done) return done.error();
  return {};
}

Result<void> Exchange::run_plain(std::size_t index) {
  const auto& bucket = buckets_[index];
  const auto flat = floats_of(flats_[index]);
  const bool last = index + 1 == buckets_.size();
  {
    const Stopwatch watch(agreed_.times.encode);
    for (const auto p : bucket.parameters) {
      means_[p].copy_(gradient_of(p));
      const auto own = floats_of(means_[p]);
      if (!compressors::all_finite(own)) {
        return compressors::non_finite(round_of(p, 0), own).within("gradient of " + parameters_[p].name);
      }
    }
    if (last) flat.back() = step_.vote;
  }
  {
    const Stopwatch watch(agreed_.times.exchange);
    if (auto summed = collectives::ring_all_reduce(group_, flat); !summed) return summed.error();
  }
  const Stopwatch watch(agreed_.times.decode);
  if (last) agreed_.votes = flat.back();
  const float share = 1 / static_cast<float>(group_.size());
  for (auto& value : flat) value *= share;
  for (const auto p : bucket.parameters) {
    if (auto turned = compression_.memory->average_dense(means_[p], round_of(p, 0)); !turned) return turned.error();
  }
  return {};
}

Result<void> Exchange::run_coded(const Bucket& bucket) {
  Bucket dense;
  Bucket coded{.parameters = {}, .coded = true};
  for (const auto p : bucket.parameters) {
    const bool goes_dense = compression_.compressor->goes_dense(parameters_[p].tensor.sizes(), round_of(p, 0));
    (goes_dense ? dense : coded).parameters.push_back(p);
  }
  if (!dense.parameters.empty()) {
    if (auto done = run_dense(dense); !done) return done.error();
  }
  if (coded.parameters.empty()) return {};
  return encode_passes(coded);
}

Result<void> Exchange::run_dense(const Bucket& bucket) {
  dense_.clear();
  {
    const Stopwatch watch(agreed_.times.encode);
    for (const auto p : bucket.parameters) {
      auto compensated = compression_.memory->compensate_dense(gradient_of(p), round_of(p, 0));
      if (!compensated) return compensated.error().within("gradient of " + parameters_[p].name);
      const auto own = floats_of(*compensated);
      if (!compressors::all_finite(own)) {
        return compressors::non_finite(round_of(p, 0), own).within("gradient of " + parameters_[p].name);
      }
      dense_.insert(dense_.end(), own.begin(), own.end());
    }
  }
  {
    const Stopwatch watch(agreed_.times.exchange);
    if (auto summed = collectives::ring_all_reduce(group_, std::span(dense_)); !summed) return summed.error();
  }
  const Stopwatch watch(agreed_.times.decode);
  const float share = 1 / static_cast<float>(group_.size());
  auto sum = dense_.begin();
  for (const auto p : bucket.parameters) {
    for (auto& value : floats_of(means_[p])) value = share * *sum++;
    if (auto turned = compression_.memory->average_dense(means_[p], round_of(p, 0)); !turned) return turned.error();
  }
  return {};
}

Result<void> Exchange::encode_passes(const Bucket& bucket) {
  compensated_.clear();
  {
    const Stopwatch watch(agreed_.times.encode);
    for (const auto p : bucket.parameters) {
      auto compensated = compression_.memory->compensate(gradient_of(p), round_of(p, 0));
      if (!compensated) return compensated.error().within("gradient of " + parameters_[p].name);
      compensated_.push_back(std::move(*compensated));
    }
  }
  const auto passes = compression_.compressor->traits().passes;
  for (std::uint32_t pass = 0; pass < passes.size(); ++pass) {
    {
      const Stopwatch watch(agreed_.times.encode);
      payload_.clear();
      ends_.clear();
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
        const auto p = bucket.parameters[i];
        auto encoded = compression_.compressor->encode(compensated_[i], round_of(p, pass), payload_);
        if (!encoded) return encoded.error().within("gradient of " + parameters_[p].name);
        ends_.push_back(payload_.size());
      }
    }
    const bool last = pass + 1 == passes.size();
    auto done = passes[pass] == Reduction::gather ? gather_pass(bucket, pass, last)
                                                  : sum_pass(bucket, passes[pass], pass, last);
    if (!done) return done.error();
  }
  return {};
}

Result<void> Exchange::sum_pass(const Bucket& bucket, Reduction reduction, std::uint32_t pass, bool last) {
  // Only what the last pass sent is subtracted from a residual, and only some memories do that. own_sum_ is set for
  // these alone; otherwise it is left over from another bucket.
  const bool own_wanted = last && compression_.memory->traits().reads_payload;
  if (own_wanted) own_sum_ = payload_;
  {
    const Stopwatch watch(agreed_.times.exchange);
    if (auto summed = sum(payload_, reduction); !summed) return summed.error();
  }
  const Stopwatch watch(agreed_.times.decode);
  std::size_t start = 0;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const std::size_t size = ends_[i] - start;
    const BytesView sum = BytesView(payload_).subspan(start, size);
    const BytesView own = own_wanted ? BytesView(own_sum_).subspan(start, size) : BytesView{};
    if (auto done = take(bucket.parameters[i], std::span(&sum, 1), pass, last, own); !done) return done.error();
    start = ends_[i];
  }
  return {};
}

Result<void> Exchange::gather_pass(const Bucket& bucket, std::uint32_t pass, bool last) {
  {
    std::size_t dense_bytes = 0;
    for (const auto p : bucket.parameters) dense_bytes += means_[p].nbytes();
    const Stopwatch watch(agreed_.times.exchange);
    auto gathered = collectives::ring_all_gather(group_, payload_,
                                                 payload_growth_max * dense_bytes + payload_slack_bytes, gathered_);
    if (!gathered) return gathered.error();
  }
  const Stopwatch watch(agreed_.times.decode);
  std::vector<BytesView> streams(gathered_.begin(), gathered_.end());
  std::vector<BytesView> results(streams.size());
  for (const auto p : bucket.parameters) {
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      auto payload = compressors::take_payload(streams[rank]);
      if (!payload) return payload.error().within("payload of rank " + std::to_string(rank));
      results[rank] = *payload;
    }
    if (auto done = take(p, results, pass, last, results[group_.rank()]); !done) return done.error();
  }
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    if (!streams[rank].empty()) {
      return Error{Errc::malformed, "rank " + std::to_string(rank) + " sent more than the payloads of its bucket"};
    }
  }
  return {};
}

Result<void> Exchange::sum(Bytes& payload, Reduction reduction) {
  if (reduction == Reduction::sum_fp16) return collectives::ring_all_reduce(group_, numbers_in<Half>(payload));
  if (reduction == Reduction::sum_bf16) return collectives::ring_all_reduce(group_, numbers_in<BFloat16>(payload));
  if (reduction == Reduction::max) return collectives::ring_all_reduce_max(group_, numbers_in<float>(payload));
  return collectives::ring_all_reduce(group_, numbers_in<float>(payload));
}

Result<void> Exchange::take(std::uint32_t parameter, std::span<const BytesView> results, std::uint32_t pass, bool last,
                            BytesView own) {
  auto& compressor = *compression_.compressor;
  auto round = round_of(parameter, pass);
  if (auto absorbed = compressor.absorb(results, round); !absorbed) {
    return absorbed.error().within("gradient of " + parameters_[parameter].name);
  }
  if (!last) return {};
  auto& mean = means_[parameter];
  mean.zero_();
  const float share = 1 / static_cast<float>(group_.size());
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    if (results.size() > 1) round.rank = rank;
    auto decoded = compressor.decode_add(results[rank], round, share, mean);
    if (!decoded) {
      return decoded.error().within("gradient of " + parameters_[parameter].name + " from rank " +
                                    std::to_string(rank));
    }
  }
  round.rank = group_.rank();
  compressor.conclude(mean, round);
  return compression_.memory->update(round, compressor, own, mean);
}

Result<void> check_equal(std::span<const NamedTensor> parameters, collectives::Communicator& group) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : parameters) {
    hash = XXH3_64bits_withSeed(tensor.data_ptr(), tensor.nbytes(), hash);
  }
  std::vector<Bytes> all;
  const auto own = std::as_bytes(std::span(&hash, 1));
  if (auto gathered = collectives::ring_all_gather(group, own, own.size(), all); !gathered) return gathered.error();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!std::ranges::equal(all[rank], own)) {
      return Error{Errc::conflict, "the parameters of rank " + std::to_string(rank) + " differ from those of rank " +
                                       std::to_string(group.rank())};
    }
  }
  return {};
}

}  // namespace weir::actors
