#include "training/replica.hpp"

#include <algorithm>
#include <numeric>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/device/device.hpp"
#include "compressors/memories/misfit.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/epochs.hpp"
#include "training/datasets/catalog.hpp"
#include "training/device.hpp"
#include "training/exchange/agreement.hpp"
#include "training/exchange/topology_fit.hpp"
#include "training/job_parts.hpp"
#include "training/models/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/optimizers/groups.hpp"
#include "training/precision.hpp"
#include "training/random_state.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

/// What each worker of a job asks for.
double gpus_of(const protocol::JobSpec& spec) {
  const auto gpus = spec.resources.per_worker.find("gpu");
  return gpus == spec.resources.per_worker.end() ? 0 : gpus->second;
}

/// The catalog can only answer for a compressor's defaults, and does not know which nodes have GPUs.
Result<void> check_topology(const protocol::JobSpec& spec, const compressors::Compressor& compressor,
                            at::Device device) {
  const auto* topology = collectives::find_topology(spec.exchange.topology);
  if (topology != nullptr && topology->on_devices && device.is_cpu()) {
    return Error{Errc::unsupported, "exchange.topology \"" + spec.exchange.topology +
                                        "\" works between GPUs, and this worker computes on the processor of node " +
                                        host_name() + ", which has given it no GPU"};
  }
  if (topology == nullptr) return {};
  if (topology->on_devices && device.type() == compressors::device::type_of_kernels()) {
    if (auto runs = compressors::device::check_kernels(); !runs) {
      return runs.error().within("exchange.topology \"" + spec.exchange.topology + "\" works with kernels");
    }
  }
  const auto reason = topology_misfit(*topology, compressor);
  if (!reason) return {};
  return Error{Errc::invalid_argument, "exchange.topology \"" + spec.exchange.topology +
                                           "\" does not fit compressor \"" + std::string(compressor.name()) +
                                           "\" with these parameters: " + *reason};
}

/// Why a job whose workers have GPUs sums within hosts through their memory; nothing if it need not.
std::string why_not_nccl_in(const protocol::JobSpec& spec) {
  if (gpus_of(spec) < 1) {
    return "a worker of the job has a part of a GPU, and NCCL takes one worker on each; set resources.per_worker.gpu "
           "to 1";
  }
  if (spec.exchange.transport != "auto") {
    return "the job names another way, exchange.transport \"" + spec.exchange.transport + "\"";
  }
  const auto limits = [](const std::string& rate) { return rate != "none"; };
  if (std::ranges::any_of(spec.training.conditions.link_rate, limits)) {
    return "training.params.link_rate limits the workers' sockets, and NCCL sends past them";
  }
  return {};
}

/// Why this rank cannot add up on a GPU, or nothing.
std::string why_not_on(at::Device device, std::uint32_t rank) {
  const std::string own = "rank " + std::to_string(rank) + " (" + host_name() + ") ";
  if (device.is_cpu()) return own + "computes on the processor: its node has given it no GPU";
  if (compressors::device::has_kernels(device)) return {};
  const auto runs = compressors::device::check_kernels();
  return own + "cannot add up on its GPU" + (runs ? "" : ": " + runs.error().context);
}

/// The catalog can only answer for a memory's defaults.
Result<void> check_differences(const compressors::Compression& compression) {
  const std::string between_models = "where workers exchange differences between their models: ";
  if (const auto reason = no_differences(compression.compressor->traits())) {
    return Error{Errc::invalid_argument, "compressor \"" + std::string(compression.compressor->name()) +
                                             "\" does not fit " + between_models + *reason};
  }
  if (const auto reason = no_differences(compression.memory->traits())) {
    return Error{Errc::invalid_argument, "memory \"" + std::string(compression.memory->name()) + "\" does not fit " +
                                             between_models + *reason + "; try compression.memory \"residual\""};
  }
  return {};
}

/// What of a job the catalog cannot know: parameters decide, too.
Result<void> check_values(const Replica& replica, const compressors::Compression& compression) {
  if (replica.exchanges() == Exchanged::nothing) {
    const std::string alone = "training.mode \"" + replica.spec.training.mode.name + "\" exchanges nothing";
    if (replica.world != 1) {
      return Error{Errc::invalid_argument,
                   alone + ": it trains on one worker, and the job has " + std::to_string(replica.world)};
    }
    // A memory would take the momentum from the optimizer.
    if (replica.spec.compression.compressor.name == "none") return {};
    return Error{Errc::invalid_argument, alone + ", so that there is nothing to compress"};
  }
  if (replica.exchanges() == Exchanged::differences) {
    if (auto fits = check_differences(compression); !fits) return fits;
  }
  const auto aggregation = aggregation_named(replica.spec.compression.aggregation);
  if (!aggregation) {
    return Error{Errc::invalid_argument, "unknown compression.aggregation " + replica.spec.compression.aggregation};
  }
  if (const auto reason = aggregation_misfit(*aggregation, compression)) {
    return Error{Errc::invalid_argument, "compression.aggregation \"" + replica.spec.compression.aggregation +
                                             "\" does not fit compressor \"" +
                                             std::string(compression.compressor->name()) + "\": " + *reason};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::make(const protocol::JobSpec& spec, std::uint32_t rank, std::uint32_t world,
                                               std::uint32_t others, at::Device device) {
  const auto partition = partition_named(spec.dataset.partition);
  if (!partition) return Error{Errc::invalid_argument, "unknown dataset.partition " + spec.dataset.partition};
  if (auto fits = check_precision(spec.training.precision, device); !fits) return fits.error();
  auto dataset = datasets().make(spec.dataset.choice.name, spec.dataset.choice.params, spec.dataset.path.value_or(""));
  if (!dataset) return dataset.error();
  auto examples = (*dataset)->train();
  if (!examples) return examples.error();
  auto sampler = Sampler::make({.partition = *partition,
                                .rank = rank,
                                .world = world,
                                .samples_per_step = spec.training.samples_per_step(),
                                .seed = spec.training.seed,
                                .dirichlet_alpha = spec.dataset.dirichlet_alpha},
                               (*examples)->classes());
  if (!sampler) return sampler.error();

  std::unique_ptr<Replica> replica(new Replica(spec, rank, world, others, device, std::move(*sampler)));
  replica->examples = std::move(*examples);
  auto model = make_model(spec.model.name, spec.model.params, (*dataset)->shape(), spec.training.seed, device);
  if (!model) return model.error();
  replica->model = std::move(*model);
  auto mode = modes().make(spec.training.mode.name, spec.training.mode.params);
  if (!mode) return mode.error();
  replica->mode = std::move(*mode);
  auto compression = training::make_compression(spec);
  if (!compression) return compression.error();
  if (auto fits = check_values(*replica, *compression); !fits) return fits.error();
  if (auto fits = replica->mode->check(spec, world, *compression); !fits) return fits.error();
  replica->compression_ = std::move(*compression);
  if (auto fits = check_topology(spec, *replica->compression_.compressor, device); !fits) return fits.error();
  const auto owner = momentum_owner(replica->compression_.compressor->traits(), replica->compression_.memory->traits());
  const OptimizerSetting setting{replica->model->parameters(), owner, replica->model->decays()};
  const auto& wanted = spec.training.optimizer;
  if (auto fits = check_groups(wanted.params, setting.parameters); !fits) return fits.error();
  auto optimizer = optimizers().make(wanted.name, wanted.params, setting);
  if (!optimizer) return optimizer.error();
  replica->optimizer = std::move(*optimizer);
  replica->learning_rate = wanted.params.value("lr", 0.0);

  const auto gradients = replica->mode->gradients_per_step(world);
  if (!gradients) return gradients.error();
  const auto length = length_of(spec, replica->examples->classes().size(), *gradients);
  if (!length) return length.error();
  replica->length = *length;
  auto schedule = schedules().make(spec.training.lr_schedule.name, spec.training.lr_schedule.params,
                                   ScheduleSetting{length->steps_per_epoch, length->steps_total, *gradients});
  if (!schedule) return schedule.error();
  replica->schedule = std::move(*schedule);
  return replica;
}

Replica::Replica(const protocol::JobSpec& job, std::uint32_t own_rank, std::uint32_t workers,
                 std::uint32_t others_behind, at::Device of_model, Sampler own_sampler)
    : spec(job),
      rank(own_rank),
      world(workers),
      others(others_behind),
      device(of_model),
      sampler(std::move(own_sampler)) {}

Replica::~Replica() { exchange.reset(); }  // it uses the group of the workers

std::uint64_t Replica::parameter_count() const {
  std::uint64_t count = 0;
  for (const auto& parameter : model->parameters()) count += static_cast<std::uint64_t>(parameter.tensor.numel());
  return count;
}

Exchanged Replica::exchanges() const {
  const Exchanged usual = mode->exchanges();
  const bool models = usual == Exchanged::gradients && spec.compression.apply_to == "models";
  return models ? Exchanged::differences : usual;
}

bool Replica::own_optimizers() const {
  return exchanges() == Exchanged::differences || exchanges() == Exchanged::models;
}

std::vector<NamedTensor> Replica::exchanged_buffers() const {
  if (exchanges() != Exchanged::differences || spec.compression.apply_to != "models") return {};
  return model->statistics();
}

std::vector<NamedTensor> Replica::exchanged_tensors() const {
  auto tensors = model->parameters();
  for (auto& buffer : exchanged_buffers()) tensors.push_back(std::move(buffer));
  return tensors;
}

WarmupLength Replica::warmup() const {
  const auto of_compressor = compression().compressor->warmup_length(course());
  return {.steps = protocol::steps_in(of_compressor.epochs, length.steps_per_epoch), .rounds = of_compressor.rounds};
}

bool Replica::own_buffers() const { return rank != 0 || served() || exchanges() == Exchanged::models; }

bool Replica::served() const { return exchanges() == Exchanged::pushes; }

Result<void> Replica::join(collectives::Fabric& fabric) {
  ensure(fabric.size() == members(), "a group of all ranks of the job");
  if (others > 0 && !served()) {
    std::vector<std::uint32_t> ranks(world);
    std::iota(ranks.begin(), ranks.end(), 0U);
    part_ = collectives::part_of(fabric, ranks, fabric.lanes() - 1);  // the last one is for the talk with the others
  }
  workers_ = part_ ? part_.get() : &fabric;
  // The ranks' own models may differ; then those are compared that they were saved with.
  const auto hash = common_hash_ ? *common_hash_ : hash_of(model->parameters());
  if (auto same = expect_same_settings(fabric, spec); !same) return same;
  if (auto same = expect_equal(*workers_, hash, "parameters"); !same) return same;
  if (auto same = expect_equal(*workers_, examples->hash(), "training examples"); !same) {
    if (same.error().code != Errc::conflict) return same;
    return same.error().within("dataset.path has to name the same files on all nodes");
  }
  return mode->join(*this, fabric);
}

Result<void> Replica::make_exchange() {
  const std::uint64_t bucket_bytes = spec.exchange.bucket_bytes;
  const Exchange::Options options{
      .values = own_optimizers() ? "difference" : "gradient",
      .aggregation = *aggregation_named(spec.compression.aggregation),
      .seed = spec.training.seed,
      .course = course(),
      .bucket_sizes = {.first_bytes = std::min(BucketSizes().first_bytes, bucket_bytes), .bytes = bucket_bytes},
      .groups = mode->groups(exchanged_tensors()),
      .statistics = exchanged_buffers().size(),
      .together = own_optimizers() || spec.training.clip.local,
      .topology = {spec.exchange.topology, spec.exchange.servers},
      .make_compression = [this] { return training::make_compression(spec); }};
  auto devices = join_devices();
  if (!devices) return devices.error().within("exchange.topology \"" + spec.exchange.topology + "\"");
  exchange =
      std::make_unique<Exchange>(exchanged_tensors(), std::move(compression_), *workers_, options, std::move(*devices));
  return exchange_state_ ? exchange->restore(*std::exchange(exchange_state_, std::nullopt)) : Result<void>();
}

/// What the workers' GPUs exchange by, or add up within hosts; null if their hosts' memory does.
Result<std::unique_ptr<DeviceLane>> Replica::join_devices() {
  const auto* topology = collectives::find_topology(spec.exchange.topology);
  if (topology == nullptr) return nullptr;
  if (topology->on_devices) return DeviceLane::join(*workers_, device);
  if (!topology->by_hosts || gpus_of(spec) <= 0 || world == 1) return nullptr;
  why_not_nccl = why_not_nccl_in(spec);
  if (!why_not_nccl.empty()) return nullptr;
  auto joined = DeviceLane::join_hosts(*workers_, device, why_not_on(device, rank));
  if (!joined) return joined.error();
  why_not_nccl = std::move(joined->lacking);
  return std::move(joined->lane);
}

std::vector<NamedTensor> Replica::model_of_training() const {
  auto tensors = mode->save().model;
  if (tensors.empty()) return state_of(*model);
  for (auto& buffer : model->buffers()) {
    const bool is_there = std::ranges::find(tensors, buffer.name, &NamedTensor::name) != tensors.end();
    if (!is_there) tensors.push_back(std::move(buffer));
  }
  return tensors;
}

Result<Bytes> Replica::save_model() const {
  TensorFile file;
  file.add("model.", model_of_training());
  return file.write({});
}

Result<Bytes> Replica::save() const {
  TensorFile file;
  const auto of_mode = mode->save();
  if (rank == 0 && !served()) {
    file.add("model.", model_of_training());
    file.add("optimizer.", optimizer->save());
    file.add("mode.", of_mode.common);
  }
  const auto own = protocol::rank_prefix(rank);
  if (mode->own_models()) file.add(own + "model.", exchanged_tensors());
  file.add(own + "mode.", of_mode.own);
  if (rank != 0 && own_optimizers()) file.add(own + "optimizer.", optimizer->save());
  if (own_buffers()) file.add(own + "buffers.", model->buffers());
  file.add(own + "memory.", compression().memory->save());
  file.add(own + "compressor.", compression().compressor->save());
  if (exchange) file.add(own + "exchange.", exchange->save());
  file.add(own, {{"rng", random_state(at::kCPU)}});
  if (device.is_cuda()) file.add(own, {{"device_rng", random_state(device)}});
  return file.write(protocol::to_metadata({step, world, rank, others}));
}

Result<void> Replica::restore(const Segment& checkpoint) {
  auto file = protocol::read_safetensors(checkpoint);
  if (!file) return file.error();
  const auto header = protocol::read_checkpoint_header(*file);
  if (!header) return header.error();
  if (auto fits = protocol::check_group(*header, world, members()); !fits) return fits;
  const auto own = protocol::rank_prefix(rank);
  if (auto loaded = load_into(*file, "model.", state_of(*model)); !loaded) return loaded.error();
  if (auto done = mode->restore(*this, tensors_under(*file, "mode."), tensors_under(*file, own + "mode.")); !done) {
    return done.error();
  }
  if (mode->own_models()) {
    common_hash_ = hash_of(model->parameters());
    if (auto loaded = load_into(*file, own + "model.", exchanged_tensors()); !loaded) return loaded.error();
  }
  // Where models are mixed, a checkpoint may have rank 0's only in the model: so it was before there was their mean.
  const bool in_model = rank == 0 && !served() && tensors_under(*file, own + "buffers.").empty();
  if (own_buffers() && !in_model) {
    // Those that are exchanged have been loaded with the model.
    std::vector<std::pair<at::Tensor, at::Tensor>> exchanged;
    for (const auto& buffer : exchanged_buffers()) exchanged.emplace_back(buffer.tensor, buffer.tensor.clone());
    if (auto loaded = load_into(*file, own + "buffers.", model->buffers()); !loaded) return loaded.error();
    for (const auto& [buffer, value] : exchanged) buffer.copy_(value);
  }
  // A job in which all had the same may go on as one in which each has its own.
  auto of_optimizer = tensors_under(*file, own + "optimizer.");
  if (of_optimizer.empty() || !own_optimizers()) of_optimizer = tensors_under(*file, "optimizer.");
  if (served()) of_optimizer.clear();  // the servers' optimizers apply the gradients
  if (auto done = optimizer->restore(of_optimizer); !done) return done.error();
  if (auto done = compression().memory->restore(tensors_under(*file, own + "memory.")); !done) return done.error();
  const auto compressor = tensors_under(*file, own + "compressor.");
  if (auto done = compression().compressor->restore(compressor); !done) return done.error();
  exchange_state_ = tensors_under(*file, own + "exchange.");
  const auto rng = tensors_under(*file, own + "rng");
  if (rng.size() != 1) return Error{Errc::malformed, "checkpoint: no state of the random generator of this rank"};
  if (auto done = set_random_state(at::kCPU, rng.front().tensor); !done) return done.error();
  // A checkpoint of a job on processors has none.
  const auto device_rng = tensors_under(*file, own + "device_rng");
  if (device.is_cuda() && !device_rng.empty()) {
    if (auto done = set_random_state(device, device_rng.front().tensor); !done) return done.error();
  }
  step = header->step;
  return {};
}

}  // namespace weir::training
