#include "training/job_parts.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/xxh3.hpp"
#include "training/device.hpp"
#include "training/exchange/agreement.hpp"
#include "training/modes/mode.hpp"
#include "training/optimizers/optimizer.hpp"

namespace weir::training {
namespace {

/// By its JSON.
std::uint64_t hash_of_setting(const nlohmann::json& value) {
  const std::string text = value.dump();
  return XXH3_64bits(text.data(), text.size());
}

/// All that decides about the messages of a step, and about how many steps there are, by its place in the job spec.
std::vector<Compared> settings_of(const protocol::JobSpec& spec) {
  std::vector<Compared> settings;
  const auto add = [&settings](const std::string& place, const nlohmann::json& value) {
    settings.push_back({.what = "settings of " + place, .hash = hash_of_setting(value)});
  };
  const auto add_choice = [&add](const std::string& place, const protocol::Choice& choice) {
    add(place, nlohmann::json::array({choice.name, choice.params}));
  };
  const auto& [topology, transport, bucket_bytes, servers] = spec.exchange;
  add("exchange.topology", topology);
  add("exchange.bucket_bytes", bucket_bytes);
  add("exchange.servers", servers);
  const auto& [compressor, memory, apply_to, aggregation] = spec.compression;
  add_choice("compression.compressor", compressor);
  add_choice("compression.memory", memory);
  add("compression.apply_to", apply_to);
  add("compression.aggregation", aggregation);
  add_choice("model", spec.model);
  const auto& training = spec.training;
  add_choice("training.mode", training.mode);
  add_choice("training.optimizer", training.optimizer);  // a memory may keep its momentum
  add_choice("training.lr_schedule", training.lr_schedule);
  add("training.seed", training.seed);
  add("training.batch_size", training.batch_size);
  add("training.epochs", training.epochs);
  add("training.max_steps", training.max_steps ? nlohmann::json(*training.max_steps) : nlohmann::json());
  const auto limit = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  const auto& [norm, value, local] = training.clip;
  add("training.clip", nlohmann::json::array({limit(norm), limit(value), local}));
  return settings;
}

}  // namespace

Result<compressors::Compression> make_compression(const protocol::JobSpec& spec) {
  const auto& wanted = spec.compression;
  const auto momentum = momentum_of(spec.training.optimizer.params);
  const auto* mode = modes().find(spec.training.mode.name);
  // What neighbours have not been sent is still in the difference to what they know.
  const bool without_memory = mode != nullptr && mode->exchanges == Exchanged::models && wanted.memory.name.empty();
  return compressors::builtin().make({.compressor = wanted.compressor.name,
                                      .params = wanted.compressor.params,
                                      .memory = without_memory ? "none" : wanted.memory.name,
                                      .memory_params = wanted.memory.params,
                                      .setting = {.momentum = momentum.factor, .nesterov = momentum.nesterov}});
}

std::uint64_t hash_of(std::span<const NamedTensor> parameters) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : parameters) {
    const at::Tensor values = on_host(tensor);
    hash = XXH3_64bits_withSeed(name.data(), name.size(), hash);
    hash = XXH3_64bits_withSeed(values.sizes().data(), values.sizes().size() * sizeof(std::int64_t), hash);
    hash = XXH3_64bits_withSeed(values.data_ptr(), values.nbytes(), hash);
  }
  return hash;
}

Result<void> expect_same_settings(collectives::Fabric& fabric, const protocol::JobSpec& spec) {
  return expect_equal(fabric, settings_of(spec));
}

Result<void> expect_same_job(collectives::Fabric& fabric, const protocol::JobSpec& spec, std::uint64_t parameters) {
  if (auto equal = expect_same_settings(fabric, spec); !equal) return equal;
  return expect_equal(fabric, parameters, "parameters");
}

}  // namespace weir::training
