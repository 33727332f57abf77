#include "training/replica.hpp"

#include <algorithm>
#include <cmath>

#include "base/errc.hpp"
#include "base/xxh3.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/memories/misfit.hpp"
#include "protocol/checkpoint.hpp"
#include "training/datasets/catalog.hpp"
#include "training/exchange/agreement.hpp"
#include "training/models/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

Result<compressors::Compression> make_compression(const protocol::JobSpec& spec) {
  const auto& wanted = spec.compression;
  const auto momentum = momentum_of(spec.training.optimizer.params);
  return compressors::builtin().make({.compressor = wanted.compressor.name,
                                      .params = wanted.compressor.params,
                                      .memory = wanted.memory.name,
                                      .memory_params = wanted.memory.params,
                                      .setting = {.momentum = momentum.factor, .nesterov = momentum.nesterov}});
}

/// The catalog can only answer for a compressor's defaults.
Result<void> check_topology(const protocol::JobSpec& spec, const compressors::Compressor& compressor) {
  const auto* topology = collectives::find_topology(spec.exchange.topology);
  if (topology == nullptr || !topology->by_owners) return {};
  const auto traits = compressor.traits();
  if (topology->splits ? traits.fits_split() : traits.fits_owners()) return {};
  const std::string reason =
      topology->splits ? "it carries sums and entries that a compressor has chosen, and this one sends neither"
                       : "the mean of what the workers encode cannot be encoded in the same way";
  return Error{Errc::invalid_argument, "exchange.topology \"" + spec.exchange.topology +
                                           "\" does not fit compressor \"" + std::string(compressor.name()) +
                                           "\" with these parameters: " + reason};
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

std::uint64_t hash_of(const std::vector<NamedTensor>& parameters) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : parameters) {
    hash = XXH3_64bits_withSeed(tensor.data_ptr(), tensor.nbytes(), hash);
  }
  return hash;
}

/// Of all that decides about the messages of a step.
std::uint64_t hash_of_exchange(const protocol::JobSpec& spec) {
  const auto& [topology, transport, bucket_bytes, servers] = spec.exchange;
  const auto& [compressor, memory, apply_to, aggregation] = spec.compression;
  const auto& mode = spec.training.mode;
  const nlohmann::json all = {topology,          bucket_bytes,       servers,       compressor.name,
                              compressor.params, memory.name,        memory.params, mode.name,
                              mode.params,       spec.training.seed, apply_to,      aggregation};
  const std::string text = all.dump();
  return XXH3_64bits(text.data(), text.size());
}

std::uint64_t steps_of(const protocol::JobSpec& spec, std::uint64_t steps_per_epoch) {
  const auto steps = static_cast<std::uint64_t>(std::ceil(spec.training.epochs * static_cast<double>(steps_per_epoch)));
  return std::min(steps, spec.training.max_steps.value_or(steps));
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::make(const protocol::JobSpec& spec, std::uint32_t rank, std::uint32_t world) {
  const auto partition = partition_named(spec.dataset.partition);
  if (!partition) return Error{Errc::invalid_argument, "unknown dataset.partition " + spec.dataset.partition};
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

  std::unique_ptr<Replica> replica(new Replica(spec, rank, world, std::move(*sampler)));
  replica->examples = std::move(*examples);
  auto model = make_model(spec.model.name, spec.model.params, (*dataset)->shape(), spec.training.seed);
  if (!model) return model.error();
  replica->model = std::move(*model);
  auto mode = modes().make(spec.training.mode.name, spec.training.mode.params);
  if (!mode) return mode.error();
  replica->mode = std::move(*mode);
  auto compression = make_compression(spec);
  if (!compression) return compression.error();
  if (auto fits = check_values(*replica, *compression); !fits) return fits.error();
  replica->compression_ = std::move(*compression);
  if (auto fits = check_topology(spec, *replica->compression_.compressor); !fits) return fits.error();
  const auto owner = momentum_owner(replica->compression_.compressor->traits(), replica->compression_.memory->traits());
  const OptimizerSetting setting{replica->model->parameters(), owner, replica->model->decays()};
  const auto& wanted = spec.training.optimizer;
  auto optimizer = optimizers().make(wanted.name, wanted.params, setting);
  if (!optimizer) return optimizer.error();
  replica->optimizer = std::move(*optimizer);
  replica->learning_rate = wanted.params.value("lr", 0.0);

  const auto steps_per_epoch = replica->sampler.steps_per_epoch();
  replica->steps_total = steps_of(spec, steps_per_epoch);
  auto schedule = schedules().make(spec.training.lr_schedule.name, spec.training.lr_schedule.params,
                                   ScheduleSetting{steps_per_epoch, replica->steps_total, world});
  if (!schedule) return schedule.error();
  replica->schedule = std::move(*schedule);
  return replica;
}

Replica::Replica(const protocol::JobSpec& job, std::uint32_t own_rank, std::uint32_t ranks, Sampler own_sampler)
    : spec(job), rank(own_rank), world(ranks), sampler(std::move(own_sampler)) {}

Replica::~Replica() = default;

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

bool Replica::own_optimizers() const { return exchanges() == Exchanged::differences; }

std::vector<NamedTensor> Replica::exchanged_buffers() const {
  if (!own_optimizers() || spec.compression.apply_to != "models") return {};
  auto buffers = model->buffers();
  std::erase_if(buffers, [](const NamedTensor& buffer) { return buffer.tensor.scalar_type() != at::kFloat; });
  return buffers;
}

std::vector<NamedTensor> Replica::exchanged_tensors() const {
  auto tensors = model->parameters();
  for (auto& buffer : exchanged_buffers()) tensors.push_back(std::move(buffer));
  return tensors;
}

std::uint64_t Replica::warmup_steps() const {
  auto length = compression().compressor->warmup_length(epochs_total());
  length.steps = mode->steps_of_rounds(*this, length.steps);
  return length.in_steps(sampler.steps_per_epoch());
}

Result<void> Replica::join(collectives::Fabric& fabric) {
  if (auto equal = expect_equal(fabric, hash_of_exchange(spec), "settings of the exchange"); !equal) return equal;
  // Buffers are not compared: after a restart each rank has its own.
  if (auto equal = expect_equal(fabric, hash_of(model->parameters()), "parameters"); !equal) return equal;
  const Exchange::Options options{.values = own_optimizers() ? "difference" : "gradient",
                                  .aggregation = *aggregation_named(spec.compression.aggregation),
                                  .seed = spec.training.seed,
                                  .epochs_total = epochs_total(),
                                  .bucket_sizes = {.bytes = spec.exchange.bucket_bytes},
                                  .topology = {spec.exchange.topology, spec.exchange.servers},
                                  .make_compression = [this] { return make_compression(spec); }};
  exchange = std::make_unique<Exchange>(exchanged_tensors(), std::move(compression_), fabric, options);
  return exchange_state_ ? exchange->restore(*std::exchange(exchange_state_, std::nullopt)) : Result<void>();
}

Result<Bytes> Replica::save_model() const {
  TensorFile file;
  file.add("model.", state_of(*model));
  return file.write({});
}

Result<Bytes> Replica::save() const {
  TensorFile file;
  if (rank == 0) {
    file.add("model.", state_of(*model));
    file.add("optimizer.", optimizer->save());
  }
  const auto own = protocol::rank_prefix(rank);
  if (rank != 0 && own_optimizers()) file.add(own + "optimizer.", optimizer->save());
  if (rank != 0) file.add(own + "buffers.", model->buffers());
  file.add(own + "memory.", compression().memory->save());
  file.add(own + "compressor.", compression().compressor->save());
  if (exchange) file.add(own + "exchange.", exchange->save());
  file.add(own, {{"rng", random_state()}});
  return file.write(protocol::to_metadata({step, world, rank}));
}

Result<void> Replica::restore(const Segment& checkpoint) {
  auto file = protocol::read_safetensors(checkpoint);
  if (!file) return file.error();
  const auto header = protocol::read_checkpoint_header(*file);
  if (!header) return header.error();
  if (header->rank || header->world != world) {
    return Error{Errc::conflict, "the checkpoint is of " + std::to_string(header->world) + " ranks, the job has " +
                                     std::to_string(world)};
  }
  if (auto loaded = load_into(*file, "model.", state_of(*model)); !loaded) return loaded.error();

  const auto own = protocol::rank_prefix(rank);
  if (rank != 0) {
    // Those that are exchanged are rank 0's, which have been loaded with the model.
    std::vector<std::pair<at::Tensor, at::Tensor>> common;
    for (const auto& buffer : exchanged_buffers()) common.emplace_back(buffer.tensor, buffer.tensor.clone());
    if (auto loaded = load_into(*file, own + "buffers.", model->buffers()); !loaded) return loaded.error();
    for (const auto& [buffer, value] : common) buffer.copy_(value);
  }
  // A job in which all had the same may go on as one in which each has its own.
  auto of_optimizer = tensors_under(*file, own + "optimizer.");
  if (of_optimizer.empty() || !own_optimizers()) of_optimizer = tensors_under(*file, "optimizer.");
  if (auto done = optimizer->restore(of_optimizer); !done) return done.error();
  if (auto done = compression().memory->restore(tensors_under(*file, own + "memory.")); !done) return done.error();
  const auto compressor = tensors_under(*file, own + "compressor.");
  if (auto done = compression().compressor->restore(compressor); !done) return done.error();
  exchange_state_ = tensors_under(*file, own + "exchange.");
  const auto rng = tensors_under(*file, own + "rng");
  if (rng.size() != 1) return Error{Errc::malformed, "checkpoint: no state of the random generator of this rank"};
  if (auto done = set_random_state(rng.front().tensor); !done) return done.error();
  step = header->step;
  return {};
}

}  // namespace weir::training
