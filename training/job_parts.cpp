#include "training/job_parts.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/xxh3.hpp"
#include "training/device.hpp"
#include "training/exchange/agreement.hpp"
#include "training/modes/mode.hpp"
#include "training/optimizers/optimizer.hpp"

namespace weir::training {
namespace {

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
    hash = XXH3_64bits_withSeed(values.data_ptr(), values.nbytes(), hash);
  }
  return hash;
}

Result<void> expect_same_settings(collectives::Fabric& fabric, const protocol::JobSpec& spec) {
  return expect_equal(fabric, hash_of_exchange(spec), "settings of the exchange");
}

Result<void> expect_same_job(collectives::Fabric& fabric, const protocol::JobSpec& spec, std::uint64_t parameters) {
  if (auto equal = expect_same_settings(fabric, spec); !equal) return equal;
  return expect_equal(fabric, parameters, "parameters");
}

}  // namespace weir::training
