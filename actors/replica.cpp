#include "actors/replica.hpp"

#include <algorithm>
#include <cmath>

#include "actors/datasets/catalog.hpp"
#include "actors/models/catalog.hpp"
#include "actors/tensor_file.hpp"
#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "protocol/checkpoint.hpp"

namespace weir::actors {
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
  if (topology == nullptr || !topology->by_owners || compressor.traits().fits_owners()) return {};
  return Error{Errc::invalid_argument, "exchange.topology \"" + spec.exchange.topology +
                                           "\" does not fit compressor \"" + std::string(compressor.name()) +
                                           "\" with these parameters: the mean of what the workers encode cannot be "
                                           "encoded in the same way"};
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
  auto sampler =
      Sampler::make({*partition, rank, world, static_cast<std::uint32_t>(spec.training.batch_size), spec.training.seed},
                    (*examples)->classes());
  if (!sampler) return sampler.error();

  std::unique_ptr<Replica> replica(new Replica(spec, rank, world, std::move(*sampler)));
  replica->examples = std::move(*examples);
  auto model = make_model(spec.model.name, spec.model.params, (*dataset)->shape(), spec.training.seed);
  if (!model) return model.error();
  replica->model = std::move(*model);
  auto compression = make_compression(spec);
  if (!compression) return compression.error();
  replica->compression_ = std::move(*compression);
  if (auto fits = check_topology(spec, *replica->compression_.compressor); !fits) return fits.error();
  const auto owner = momentum_owner(replica->compression_.compressor->traits(), replica->compression_.memory->traits());
  const OptimizerSetting setting{replica->model->parameters(), owner};
  const auto& wanted = spec.training.optimizer;
  auto optimizer = optimizers().make(wanted.name, wanted.params, setting);
  if (!optimizer) return optimizer.error();
  replica->optimizer = std::move(*optimizer);
  replica->learning_rate = wanted.params.value("lr", 0.0);

  const auto steps_per_epoch = replica->sampler.steps_per_epoch();
  replica->steps_total = steps_of(spec, steps_per_epoch);
  auto schedule = schedules().make(spec.training.lr_schedule.name, spec.training.lr_schedule.params,
                                   ScheduleSetting{steps_per_epoch, replica->steps_total});
  if (!schedule) return schedule.error();
  replica->schedule = std::move(*schedule);
  return replica;
}

std::uint64_t Replica::parameter_count() const {
  std::uint64_t count = 0;
  for (const auto& parameter : model->parameters()) count += static_cast<std::uint64_t>(parameter.tensor.numel());
  return count;
}

Result<void> Replica::join(collectives::Fabric& fabric) {
  // Buffers are not compared: after a restart each rank has its own.
  if (auto equal = check_equal(model->parameters(), fabric); !equal) return equal.error();
  const Exchange::Options options{.seed = spec.training.seed,
                                  .epochs_total = epochs_total(),
                                  .bucket_sizes = {.bytes = spec.exchange.bucket_bytes},
                                  .topology = {spec.exchange.topology, spec.exchange.servers}};
  exchange = std::make_unique<Exchange>(model->parameters(), std::move(compression_), fabric, options);
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
    if (auto loaded = load_into(*file, own + "buffers.", model->buffers()); !loaded) return loaded.error();
  }
  if (auto done = optimizer->restore(tensors_under(*file, "optimizer.")); !done) return done.error();
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

}  // namespace weir::actors
