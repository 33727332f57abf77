#include "actors/exchange/exchange.hpp"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/xxh3.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/ring.hpp"

namespace weir::actors {
namespace {

using collectives::Task;
using compressors::Reduction;

std::vector<ParameterSize> sizes_of(const std::vector<NamedTensor>& parameters,
                                    const compressors::Compression& compression) {
  // A lossless sum without a memory is what a plain bucket does anyway, without copying.
  const auto traits = compression.compressor->traits();
  const bool nothing_to_do =
      traits.lossless && traits.passes == compressors::Passes{Reduction::sum} && compression.memory->name() == "none";
  std::vector<ParameterSize> sizes;
  for (const auto& [name, tensor] : parameters) {
    sizes.push_back({static_cast<std::uint64_t>(tensor.numel()) * sizeof(float),
                     !nothing_to_do && compression.compressor->takes(tensor.sizes())});
  }
  return sizes;
}

/// How many ranks own shares. Payloads that are only summed do not go to owners: the topology itself adds them up.
std::uint32_t owners_of(const Exchange::Options& options, const compressors::Traits& traits, std::uint32_t ranks) {
  const auto* topology = collectives::find_topology(options.topology.name);
  const bool gathers = std::ranges::find(traits.passes, Reduction::gather) != traits.passes.end();
  if (topology == nullptr || !topology->by_owners || !gathers) return 0;
  ensure(traits.fits_owners(), "a topology that fits the compressor");
  const std::uint32_t servers = options.topology.servers;
  return servers == 0 ? ranks : std::min(servers, ranks);
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

/// What the compute thread asks of the schedule, again and again.
class Exchange::Call final : public collectives::Loop::Request {
 public:
  explicit Call(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  const std::function<void()> work_;
};

Exchange::Exchange(std::vector<NamedTensor> parameters, compressors::Compression compression,
                   collectives::Fabric& fabric, const Options& options)
    : parameters_(std::move(parameters)),
      compression_(std::move(compression)),
      fabric_(fabric),
      buckets_(plan_buckets(sizes_of(parameters_, compression_), options.bucket_sizes)),
      bucket_of_(parameters_.size()),
      means_(parameters_.size()),
      trace_(fabric, parameters_, buckets_.size()),
      codec_(std::make_unique<CodecThread>(fabric.thread().loop())),
      ready_(parameters_.size()),
      missing_(buckets_.size()),
      handed_over_(buckets_.size()) {
  for (std::uint32_t p = 0; p < parameters_.size(); ++p) {
    means_[p].tensor = at::zeros(parameters_[p].tensor.sizes(), at::kFloat);
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[p].tensor);
    accumulator->add_post_hook(std::make_unique<ReadyHook>(*this, p));
    hooks_.push_back(std::make_unique<Hook>(Hook{std::move(accumulator)}));
  }
  setting_ = std::make_unique<RoundSetting>(
      RoundSetting{.parameters = parameters_,
                   .means = means_,
                   .compression = compression_,
                   .seed = options.seed,
                   .epochs_total = options.epochs_total,
                   .rank = fabric.rank(),
                   .world = fabric.size(),
                   .owners = owners_of(options, compression_.compressor->traits(), fabric.size())});
  rounds_.reserve(buckets_.size());
  auto first_piece = static_cast<std::uint32_t>(parameters_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const auto p : buckets_[b].parameters) bucket_of_[p] = static_cast<std::uint32_t>(b);
    rounds_.emplace_back(*setting_, buckets_[b], /*votes=*/b + 1 == buckets_.size(), first_piece);
    first_piece += static_cast<std::uint32_t>(rounds_.back().piece_count());
    calls_.push_back(std::make_unique<Call>([this, b] { schedule_->ready(b); }));
  }
  begin_ = std::make_unique<Call>([this] { schedule_->begin(step_); });
  const auto ended = [this](const Result<void>& result, const PhaseTimes& times) {
    const std::lock_guard lock(mutex_);
    if (!result) failure_ = result.error();
    agreed_.votes = rounds_.back().votes();
    agreed_.times = {.encode = times.encode, .exchange = times.wire, .decode = times.decode, .wait = 0};
    under_way_ = false;
    changed_.notify_all();
  };
  fabric_.thread().call([&] {
    schedule_ = std::make_unique<BucketSchedule>(fabric_, options.topology, rounds_, *codec_, trace_, ended);
  });
}

Exchange::~Exchange() {
  codec_->stop();  // first, so that its last results are with the loop before the tasks go
  fabric_.thread().call([this] { schedule_.reset(); });
}

void Exchange::begin(const Step& step) {
  {
    const std::lock_guard lock(mutex_);
    ensure(!under_way_ || failure_, "a step begins before the last one is finished");
    under_way_ = !failure_;
    if (failure_) return;
  }
  for (const auto& parameter : parameters_) at::Tensor(parameter.tensor).mutable_grad().reset();
  std::fill(ready_.begin(), ready_.end(), false);
  std::fill(handed_over_.begin(), handed_over_.end(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].parameters.size();
  step_ = step;
  fabric_.thread().loop().post(*begin_);
}

void Exchange::on_ready(std::uint32_t parameter) {
  if (ready_[parameter]) return;
  ready_[parameter] = true;
  const std::size_t bucket = bucket_of_[parameter];
  if (--missing_[bucket] == 0) hand_over(bucket);
}

void Exchange::hand_over(std::size_t bucket) {
  if (handed_over_[bucket]) return;
  handed_over_[bucket] = true;
  fabric_.thread().loop().post(*calls_[bucket]);
}

Result<Exchange::Agreed> Exchange::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) hand_over(b);
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !under_way_; });
  if (failure_) return *failure_;
  agreed_.times.wait = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return agreed_;
}

std::vector<NamedTensor> Exchange::save() const {
  std::vector<NamedTensor> state;
  for (const auto& round : rounds_) round.save(state);
  return state;
}

Result<void> Exchange::restore(std::span<const NamedTensor> state) {
  for (auto& round : rounds_) {
    if (auto done = round.restore(state); !done) return done;
  }
  return {};
}

std::uint64_t Exchange::dense_bytes_per_step() const {
  std::uint64_t entries = 0;
  for (const auto& parameter : parameters_) entries += static_cast<std::uint64_t>(parameter.tensor.numel());
  const std::uint64_t ranks = fabric_.size();
  return 2 * (ranks - 1) * entries * sizeof(float) / ranks;
}

Result<void> check_equal(std::span<const NamedTensor> parameters, collectives::Fabric& fabric) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : parameters) {
    hash = XXH3_64bits_withSeed(tensor.data_ptr(), tensor.nbytes(), hash);
  }
  const auto own = std::as_bytes(std::span(&hash, 1));
  collectives::Gathered all{.payloads = {}, .bytes_max = own.size()};
  const auto gathered = fabric.thread().run([&]() -> Task<> {
    collectives::Ring ring(fabric.lane(0));
    co_return co_await ring.all_gather(own, all, collectives::Subject());
  });
  if (!gathered) return gathered.error();
  for (std::size_t rank = 0; rank < all.payloads.size(); ++rank) {
    if (!std::ranges::equal(all.payloads[rank], own)) {
      return Error{Errc::conflict, "the parameters of rank " + std::to_string(rank) + " differ from those of rank " +
                                       std::to_string(fabric.rank())};
    }
  }
  return {};
}

}  // namespace weir::actors
