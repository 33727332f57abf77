#include "training/servers/server.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "training/counts.hpp"
#include "training/datasets/catalog.hpp"
#include "training/exchange/agreement.hpp"
#include "training/job_parts.hpp"
#include "training/models/catalog.hpp"
#include "training/optimizers/groups.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/servers/division.hpp"
#include "training/servers/serving.hpp"
#include "training/shapes.hpp"
#include "training/tensor_file.hpp"

namespace weir::training::servers {
namespace {

/// Without reading them, if that is known.
Result<std::uint64_t> train_examples(const protocol::JobSpec& spec, const Dataset& dataset) {
  const auto shape = training_shape(spec);
  if (!shape) return shape.error();
  if (shape->train_examples) return *shape->train_examples;
  const auto examples = dataset.train();
  if (!examples) return examples.error();
  return (*examples)->classes().size();
}

}  // namespace

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::make(const protocol::JobSpec& spec, const Place& place) {
  std::unique_ptr<Server> server(new Server(spec, place));
  auto mode = modes().make(spec.training.mode.name, spec.training.mode.params);
  if (!mode) return mode.error();
  server->mode = std::move(*mode);
  const auto pushes = server->mode->gradients_per_step(place.workers);
  if (!pushes) return pushes.error();
  server->pushes_per_step = *pushes;
  const auto dataset =
      datasets().make(spec.dataset.choice.name, spec.dataset.choice.params, spec.dataset.path.value_or(""));
  if (!dataset) return dataset.error();
  const auto examples = train_examples(spec, **dataset);
  if (!examples) return examples.error();
  const auto length = length_of(spec, *examples, *pushes);
  if (!length) return length.error();
  server->length = *length;
  auto model = make_model(spec.model.name, spec.model.params, (*dataset)->shape(), spec.training.seed);
  if (!model) return model.error();
  server->model = std::move(*model);

  auto compression = make_compression(spec);
  if (!compression) return compression.error();
  server->compression_ = std::move(*compression);
  const auto& [compressor, memory] = server->compression_;
  if (auto fits = server->mode->check(spec, place.workers, server->compression_); !fits) return fits.error();
  const auto parameters = server->model->parameters();
  server->parts = divide(parameters, place.servers);
  const auto& own = server->parts[place.index];
  OptimizerSetting setting{{}, momentum_owner(compressor->traits(), memory->traits())};
  const auto decays = server->model->decays();
  for (const auto parameter : own) {
    setting.parameters.push_back(parameters[parameter]);
    setting.decays.push_back(decays[parameter]);
  }
  const auto& wanted = spec.training.optimizer;
  if (auto fits = check_groups(wanted.params, parameters); !fits) return fits.error();
  auto optimizer = optimizers().make(wanted.name, wanted.params, setting);
  if (!optimizer) return optimizer.error();
  server->learning_rate_ = wanted.params.value("lr", 0.0);
  auto schedule = schedules().make(spec.training.lr_schedule.name, spec.training.lr_schedule.params,
                                   ScheduleSetting{length->steps_per_epoch, length->steps_total, *pushes});
  if (!schedule) return schedule.error();
  server->schedule_ = std::move(*schedule);
  const CodingSetting coding{.seed = spec.training.seed,
                             .course = {.epochs = length->epochs_total(), .rate_falls = server->schedule_->falls()},
                             .steps_per_epoch = length->steps_per_epoch,
                             .workers = place.workers};
  server->shard = std::make_unique<Shard>(parameters, own, std::move(*optimizer), server->compression_, coding);
  server->counts.clocks.assign(place.workers, 0);
  server->counts.answered_at.assign(place.workers, 0);
  return server;
}

Result<void> Server::join(collectives::Fabric& fabric) {
  ensure(fabric.rank() == place.rank() && fabric.size() == place.ranks(), "a group with servers behind the workers");
  fabric_ = &fabric;
  traffic = std::make_unique<PushTraffic>(model->parameters());
  if (auto same = expect_same_job(fabric, spec, hash_of(model->parameters())); !same) return same;
  return expect_equal(fabric, std::nullopt, "training examples");  // which servers have not
}

Result<bool> Server::serve(Progress& progress) {
  Serving serving(*this, *fabric_, progress);
  auto finished = serving.run();
  if (!finished) fabric_->abort(finished.error());  // unless it is the group that has failed
  return finished;
}

double Server::rate_at(std::uint64_t step) const {
  return learning_rate_ * schedule_->factor(std::min(step, length.steps_total - 1));
}

std::uint64_t Server::parameter_count() const {
  std::uint64_t count = 0;
  for (const auto& parameter : model->parameters()) count += static_cast<std::uint64_t>(parameter.tensor.numel());
  return count;
}

Result<Bytes> Server::save_model() const {
  TensorFile file;
  file.add("model.", state_of(*model));
  return file.write({});
}

Result<Bytes> Server::save() const {
  TensorFile file;
  file.add("model.", shard->tensors());
  if (place.first()) file.add("model.", model->buffers());
  const auto own = protocol::rank_prefix(place.rank());
  file.add(own + "optimizer.", shard->optimizer().save());
  std::vector<std::uint64_t> numbers{counts.applied, counts.version};
  numbers.insert(numbers.end(), counts.clocks.begin(), counts.clocks.end());
  numbers.insert(numbers.end(), counts.answered_at.begin(), counts.answered_at.end());
  file.add(own, {saved_counts(numbers), shard->save_pushed()});
  return file.write(protocol::to_metadata({step(), place.workers, place.rank(), place.servers}));
}

Result<void> Server::restore(const Segment& checkpoint) {
  auto file = protocol::read_safetensors(checkpoint);
  if (!file) return file.error();
  const auto header = protocol::read_checkpoint_header(*file);
  if (!header) return header.error();
  if (auto fits = protocol::check_group(*header, place.workers, place.ranks()); !fits) return fits;
  if (auto loaded = load_into(*file, "model.", state_of(*model)); !loaded) return loaded.error();
  const auto own = protocol::rank_prefix(place.rank());
  if (auto done = shard->optimizer().restore(tensors_under(*file, own + "optimizer.")); !done) return done.error();
  const std::size_t workers = place.workers;
  const auto numbers = restored_counts(tensors_under(*file, own), 2 + 2 * workers);
  if (!numbers) return numbers.error();
  const auto clocks = numbers->begin() + 2;
  const auto answered = clocks + static_cast<std::ptrdiff_t>(workers);
  counts = {.applied = (*numbers)[0],
            .version = (*numbers)[1],
            .clocks = {clocks, answered},
            .answered_at = {answered, numbers->end()}};
  if (step() != header->step) {
    return Error{Errc::malformed, "checkpoint: " + std::to_string(counts.applied) + " applied pushes in step " +
                                      std::to_string(header->step)};
  }
  if (auto done = shard->restore_pushed(tensors_under(*file, own)); !done) return done.error();
  // What a worker has is in its own share.
  for (std::uint32_t worker = 0; worker < place.workers; ++worker) {
    const auto prefix = protocol::rank_prefix(worker) + "model.";
    for (const auto& [name, copy] : shard->copies_of(worker)) {
      const auto saved = tensors_under(*file, prefix + name);
      const auto whole = std::ranges::find(saved, "", &NamedTensor::name);
      if (whole == saved.end() || whole->tensor.sizes() != copy.sizes() ||
          whole->tensor.scalar_type() != copy.scalar_type()) {
        return Error{Errc::malformed, "checkpoint: no copy of " + name + " of rank " + std::to_string(worker)};
      }
      copy.copy_(whole->tensor);
    }
  }
  return {};
}

}  // namespace weir::training::servers
