#include "training/exchange/exchange.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/hosts.hpp"
#include "collectives/topologies/binary_blocks.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/ring.hpp"
#include "collectives/topologies/tree.hpp"
#include "compressors/memories/misfit.hpp"
#include "training/exchange/agreement.hpp"
#include "training/exchange/handover.hpp"
#include "training/exchange/topology_fit.hpp"

namespace weir::training {
namespace {

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

std::size_t position_of(std::string_view topology) {
  return static_cast<std::size_t>(collectives::find_topology(topology) - collectives::all_topologies().data());
}

/// Of the state of an exchange: the bucket size that AutoPlan has chosen.
constexpr std::string_view chosen_bytes = "auto_plan.bucket_bytes";

}  // namespace

/// What the compute thread asks of the schedule, again and again.
class Exchange::Call final : public collectives::Loop::Request {
 public:
  explicit Call(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  const std::function<void()> work_;
};

Exchange::Exchange(std::vector<NamedTensor> tensors, compressors::Compression compression, collectives::Fabric& fabric,
                   const Options& options, std::unique_ptr<DeviceLane> devices)
    : tensors_(std::move(tensors)),
      compression_(std::move(compression)),
      fabric_(fabric),
      options_(options),
      values_(tensors_.size()),
      means_(tensors_.size()),
      devices_(std::move(devices)),
      codecs_(std::make_unique<CodecThreads>(fabric.thread().loop())) {
  const auto buckets = planned(options.bucket_sizes);
  setting_ = std::make_unique<RoundSetting>(setting_of(std::ranges::any_of(buckets, &Bucket::coded)));
  trace_ = std::make_unique<StepTrace>(fabric_, tensors_, buckets.size());
  if (options.topology.name == AutoPlan::name) {
    auto_plan_ = std::make_unique<AutoPlan>(fabric, *setting_, options.make_compression, options.measure_links);
    if (may_change_layout()) {
      for (const BucketSizes& sizes : sizes_around(options.bucket_sizes)) (void)offer(sizes);
    }
  }
  begin_ = std::make_unique<Call>([this] { schedule_->begin(step_, routes_, first_, last_); });
  lay_out(offer(options.bucket_sizes));
}

/// Who encodes, and who owns shares.
RoundSetting Exchange::setting_of(bool some_coded) {
  const auto* type = collectives::find_topology(options_.topology.name);
  const bool automatic = options_.topology.name == AutoPlan::name;
  ensure(automatic || (type != nullptr && type->fits(fabric_.size())), "a topology that the job was checked for");
  const bool within_hosts = devices_ != nullptr && devices_->within_hosts();
  ensure((devices_ != nullptr && !within_hosts) == (!automatic && type->on_devices),
         "devices that exchange for a topology between them");
  ensure(!within_hosts || (!automatic && type->by_hosts), "devices that add up for a topology by hosts");
  const bool keeps_nothing = compression_.memory->name() == "none";
  const auto traits = compression_.compressor->traits();
  RoundSetting setting{.parameters = tensors_,
                       .values_name = options_.values,
                       .values = values_,
                       .means = means_,
                       .compression = compression_,
                       .gathered_mean = gathered_mean_,
                       .seed = options_.seed,
                       .course = options_.course,
                       .aggregation = options_.aggregation,
                       .ranks = fabric_.size(),
                       .rank = fabric_.rank(),
                       .world = fabric_.size(),
                       .sums_there = devices_ != nullptr && !within_hosts && keeps_nothing};
  std::optional<collectives::Hosts> hosts;
  fabric_.thread().call([&] { hosts.emplace(fabric_.lane(0)); });
  const bool several_on_a_host = hosts->count() < fabric_.size();
  setting.by_hosts =
      (some_coded || within_hosts) && several_on_a_host && (automatic ? hosts->count() > 1 : type->by_hosts);
  if (setting.by_hosts) {
    setting.rank = static_cast<std::uint32_t>(hosts->own());
    setting.world = static_cast<std::uint32_t>(hosts->count());
    setting.encodes = hosts->leads();
    setting.host_share = static_cast<float>(setting.world) / static_cast<float>(setting.ranks);
    setting.host_sums_there = within_hosts;
    // Within a single host nothing needs to be compressed.
    if (within_hosts && setting.world == 1) setting.sums_there = keeps_nothing && !traits.must_be_coded();
  }
  const bool gathers = std::ranges::count(traits.passes, Reduction::gather) > 0;
  if (automatic && gathers && traits.fits_owners()) setting.owners = setting.world;
  if (!automatic && gathers && type->by_owners()) {
    ensure(!topology_misfit(*type, *compression_.compressor), "a topology that fits the compressor");
    setting.regions = type->gathers == collectives::Gathers::regions;
    setting.hops = type->gathers == collectives::Gathers::partners;
    const std::uint32_t servers = options_.topology.servers;
    setting.owners = servers == 0 ? setting.world : std::min(servers, setting.world);
  }
  return setting;
}

/// Every bucket takes the topology that the job names, but for a plain one beside coded ones over a ring, and for what
/// the leaders of hosts exchange.
std::vector<Route> Exchange::fixed_routes() const {
  const auto& type = *collectives::find_topology(options_.topology.name);
  Route plain{.form = Form::float32, .topology = position_of(type.name), .by_owners = type.by_owners()};
  Route coded = plain;
  coded.form = Form::coded;
  const bool some_coded = std::ranges::any_of(buckets_, &Bucket::coded);
  // Beside coded buckets the plain one is small: around a ring, it would take 2 (P-1) hops for a few bytes.
  if (some_coded && type.name == collectives::Ring::name) plain.topology = position_of(collectives::Tree::name);
  if (setting_->by_hosts) {
    coded.topology = position_of(collectives::BinaryBlocks::name);
    // Within a single host nothing needs to be compressed.
    if (setting_->world == 1 && !compression_.compressor->traits().must_be_coded()) coded.form = Form::float32;
  }
  std::vector<Route> routes;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    routes.push_back(buckets_[b].coded ? coded : plain);
    if (rounds_[b].by_hosts()) routes.back().topology = coded.topology;
  }
  return routes;
}

std::vector<Bucket> Exchange::planned(const BucketSizes& sizes) const {
  auto parameters = sizes_of(tensors_, compression_);
  const bool beside = options_.aggregation == Aggregation::min || options_.aggregation == Aggregation::max;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!is_statistic(p)) continue;
    parameters[p].coded = false;  // a variance that was encoded with an error may be negative
    parameters[p].averaged = beside;
  }
  return plan_buckets(parameters, sizes, options_.groups);
}

/// Whether buckets of other sizes may be tried between two steps: what owners have left out is of their shares of these
/// buckets, and needs a memory to be left to.
bool Exchange::may_change_layout() const {
  return setting_->owners == 0 || compressors::no_residual(*compression_.compressor) ||
         compression_.memory->takes_unsent();
}

/// Which of the layouts has buckets of these sizes. If none has, there is one more.
std::size_t Exchange::offer(const BucketSizes& sizes) {
  std::vector<Bucket> buckets = planned(sizes);
  const auto same = static_cast<std::size_t>(std::ranges::find(layouts_, buckets) - layouts_.begin());
  if (same == layouts_.size()) {
    layouts_.push_back(std::move(buckets));
    bucket_bytes_.push_back(sizes.bytes);
  }
  return same;
}

/// Divides the gradients into the buckets of a layout. Nothing may be under way.
void Exchange::lay_out(std::size_t layout) {
  fabric_.thread().call([this] { schedule_.reset(); });
  rounds_.clear();
  calls_.clear();
  setting_->copies = nullptr;
  copies_.reset();  // before there are others: they take as much memory of the device as the model
  layout_ = layout;
  buckets_ = layouts_[layout];
  for (std::size_t p = 0; p < tensors_.size(); ++p) {
    // Those of tensors on a device are mostly made there: a bucket's round finds memory when it needs some on the host.
    const at::Tensor& tensor = tensors_[p].tensor;
    means_[p] = {.tensor = tensor.is_cpu() ? at::zeros(tensor.sizes(), at::kFloat) : at::Tensor(),
                 .sparse = false,
                 .positions = {}};
  }
  bucket_of_.resize(tensors_.size());
  missing_.assign(buckets_.size(), 0);
  handed_over_.assign(buckets_.size(), false);
  rounds_.reserve(buckets_.size());
  auto first_piece = static_cast<std::uint32_t>(tensors_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const auto p : buckets_[b].parameters) bucket_of_[p] = static_cast<std::uint32_t>(b);
    const bool votes = b + 1 == buckets_.size() || buckets_[b + 1].group != buckets_[b].group;
    rounds_.emplace_back(*setting_, buckets_[b], votes, first_piece);
    first_piece += static_cast<std::uint32_t>(rounds_.back().piece_count());
    calls_.push_back(std::make_unique<Call>([this, b] { schedule_->ready(b); }));
  }
  if (!tensors_.empty() && !tensors_.front().tensor.is_cpu()) {
    copies_ = std::make_unique<HostCopies>(tensors_, buckets_, means_);
    setting_->copies = copies_.get();
  }
  routes_ = auto_plan_ ? std::vector<Route>(buckets_.size()) : fixed_routes();
  trace_->divide(buckets_.size());
  const auto ended = [this](const Result<void>& result, const PhaseTimes& times) {
    const std::lock_guard lock(mutex_);
    if (result) {
      agreed_.votes = rounds_[last_ - 1].votes();
      agreed_.times = {.encode = times.encode, .exchange = times.wire, .decode = times.decode, .wait = 0};
    } else {  // other buckets may still be decoded
      failure_ = result.error();
    }
    under_way_ = false;
    changed_.notify_all();
  };
  fabric_.thread().call([&] {
    schedule_ = std::make_unique<BucketSchedule>(fabric_, options_.topology, setting_->by_hosts, devices_.get(),
                                                 buckets_, rounds_, *codecs_, *trace_, ended);
  });
}

/// Finds out how the gradients of `step` travel.
Result<void> Exchange::plan(const Step& step) {
  if (!auto_plan_) return {};
  auto communicated = begun_ ? auto_plan_->before(step, agreed_.times.wait)
                             : auto_plan_->start(step, layouts_, layout_, options_.together);
  if (!communicated) return communicated.error();
  if (*communicated) trace_->pass_over();
  if (auto_plan_->layout() != layout_) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      rounds_[b].leave_what_is_owned(step);
      if (copies_) copies_->join(b);
    }
    lay_out(auto_plan_->layout());
  }
  routes_.assign(auto_plan_->routes().begin(), auto_plan_->routes().end());
  return {};
}

/// How much this rank's values count: their mean over the ranks is then the weighted mean.
Result<void> Exchange::weigh(const Step& step) {
  if (options_.aggregation != Aggregation::weighted) return {};
  std::array all{static_cast<float>(step.samples)};
  if (auto added = add_up(fabric_, all); !added) return added;
  weight_ = static_cast<float>(static_cast<double>(step.samples) * fabric_.size() / std::max(1.0, double{all[0]}));
  return {};
}

/// Makes sums of the means.
void Exchange::sum_up() {
  const auto ranks = static_cast<double>(fabric_.size());
  for (std::size_t b = first_; b < last_; ++b) {
    for (const auto tensor : buckets_[b].parameters) {
      if (!is_statistic(tensor)) means()[tensor].tensor.mul_(ranks);
    }
  }
}

/// Brings the means to where the tensors are.
void Exchange::put_means() {
  for (std::size_t b = first_; b < last_; ++b) {
    copies_->join(b);
    for (const auto tensor : buckets_[b].parameters) {
      rounds_[b].has_mean_there(tensor) ? copies_->leave(tensor) : copies_->put(tensor, means_[tensor]);
    }
  }
}

std::optional<protocol::ExchangePlan> Exchange::new_plan() {
  if (auto_plan_) return auto_plan_->is_new() ? std::optional(auto_plan_->describe()) : std::nullopt;
  if (!std::exchange(plan_is_new_, false)) return std::nullopt;
  protocol::ExchangePlan plan = describe(routes_, buckets_, tensors_);
  plan.step = step_.number;
  plan.reason = "exchange.topology is \"" + options_.topology.name + "\"";
  return plan;
}

Exchange::~Exchange() {
  codecs_->stop();  // first, so that its last results are with the loop before the tasks go
  fabric_.thread().call([this] { schedule_.reset(); });
}

void Exchange::begin(const Step& step, std::uint32_t group) {
  {
    const std::lock_guard lock(mutex_);
    ensure(!under_way_ || failure_, "a step begins before the last one is finished");
    if (failure_) return;
  }
  auto planned = plan(step);
  if (planned) planned = weigh(step);
  if (!planned) fabric_.abort(planned.error());
  begun_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (!planned) failure_ = planned.error();
    under_way_ = !failure_;
    if (failure_) return;
  }
  const auto of_group = std::ranges::equal_range(buckets_, group, {}, &Bucket::group);
  ensure(!of_group.empty(), "a group of the exchange");
  first_ = static_cast<std::size_t>(of_group.begin() - buckets_.begin());
  last_ = first_ + of_group.size();
  for (std::size_t b = first_; b < last_; ++b) {
    handed_over_[b] = false;
    missing_[b] = buckets_[b].parameters.size();
    // Where means are made, those of the last step may still be read, or be on their way up.
    if (copies_) copies_->hold_back(b);
  }
  step_ = step;
  giving_ = true;
  fabric_.thread().loop().post(*begin_);
}

void Exchange::give(std::uint32_t tensor, at::Tensor value) {
  if (!giving_) return;  // finish() says why
  if (weight_ != 1 && value.defined()) value = at::mul(value, weight_);
  const std::size_t bucket = bucket_of_[tensor];
  ensure(first_ <= bucket && bucket < last_, "a tensor of the group of the step");
  values_[tensor] = std::move(value);
  if (--missing_[bucket] == 0) hand_over(bucket);
}

void Exchange::hand_over(std::size_t bucket) {
  if (handed_over_[bucket]) return;
  handed_over_[bucket] = true;
  if (copies_) give_to_copies(bucket);
  fabric_.thread().loop().post(*calls_[bucket]);
}

/// The values of a bucket, which the calling thread's current stream computes: those that come down are replaced by
/// their places in the host's memory.
void Exchange::give_to_copies(std::size_t bucket) {
  copies_->note_values(bucket);
  for (const auto tensor : buckets_[bucket].parameters) {
    at::Tensor& value = values_[tensor];
    const bool stays = rounds_[bucket].works_in_place(step_, routes_[bucket], tensor);
    if (value.defined() && !stays) value = copies_->fetch(tensor, value);
  }
}

Result<Exchange::Agreed> Exchange::finish() {
  giving_ = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
  }
  for (std::size_t b = first_; b < last_; ++b) hand_over(b);
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !under_way_; });
  if (failure_) return *failure_;
  agreed_.times.wait = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (copies_) put_means();
  std::ranges::fill(values_, at::Tensor());
  if (options_.aggregation == Aggregation::sum) sum_up();
  return agreed_;
}

std::vector<NamedTensor> Exchange::save() const {
  std::vector<NamedTensor> state;
  for (const auto& round : rounds_) round.save(state);
  if (std::ranges::any_of(buckets_, &Bucket::coded)) state.push_back(saved(layout_of(*setting_, bucket_of_)));
  if (auto_plan_) {
    const std::size_t kept = begun_ ? auto_plan_->kept_layout() : layout_;
    const auto bytes = static_cast<std::int64_t>(bucket_bytes_[kept]);
    state.push_back({std::string(chosen_bytes), at::full({1}, bytes, at::kLong)});
  }
  return state;
}

Result<void> Exchange::restore(std::span<const NamedTensor> state) {
  const auto chosen = std::ranges::find(state, chosen_bytes, &NamedTensor::name);
  if (auto_plan_ && chosen != state.end()) {
    const bool number = chosen->tensor.scalar_type() == at::kLong && chosen->tensor.numel() == 1;
    const std::int64_t bytes = number ? chosen->tensor.item<std::int64_t>() : -1;
    if (bytes <= 0) return Error{Errc::malformed, "the size of the buckets is no number of bytes"};
    if (!may_change_layout()) {
      layouts_.clear();
      bucket_bytes_.clear();
    }
    const auto size = static_cast<std::uint64_t>(bytes);
    lay_out(offer({.first_bytes = std::min(options_.bucket_sizes.first_bytes, size), .bytes = size}));
  }
  const auto before = layout_in(state);
  if (!before || !*before) return before ? Result<void>() : before.error();
  std::array differs{**before == layout_of(*setting_, bucket_of_) ? 0.0F : 1.0F};
  if (auto agreed = agree_on_largest(fabric_, differs); !agreed) return agreed;
  if (differs[0] > 0) return training::hand_over(fabric_, *setting_, **before, state);
  for (auto& round : rounds_) {
    if (auto done = round.restore(state); !done) return done;
  }
  return {};
}

std::uint64_t Exchange::dense_bytes_per_step() const {
  std::uint64_t entries = 0;
  for (const auto& parameter : tensors_) entries += static_cast<std::uint64_t>(parameter.tensor.numel());
  const std::uint64_t ranks = fabric_.size();
  return 2 * (ranks - 1) * entries * sizeof(float) / ranks;
}

}  // namespace weir::training
