// What a checkpoint may say of what compressors and memories keep between rounds.

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "compressors/catalog.hpp"
#include "protocol/safetensors.hpp"
#include "training/exchange/alone.hpp"
#include "training/tensor_file.hpp"

namespace {

namespace compressors = weir::compressors;

using weir::ensure;
using weir::compressors::NamedTensor;

/// A compressor that keeps something, or one with a memory that does.
struct Pair {
  const char* compressor;
  const char* memory;  ///< "": its default
};
constexpr std::array pairs{Pair{"powersgd", ""},  Pair{"casq", ""},         Pair{"sidco", ""},   Pair{"signum", ""},
                           Pair{"efsignsgd", ""}, Pair{"topk", "residual"}, Pair{"topk", "dgc"}, Pair{"topk", "ef21"}};

std::vector<NamedTensor> copies_of(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> copies;
  for (const auto& [name, tensor] : state) copies.push_back({name, tensor.clone()});
  return copies;
}

/// What was restored is saved and restored again; then it is used for a tensor, which it may not fit.
void restore(const Pair& pair, const std::vector<NamedTensor>& of_compressor,
             const std::vector<NamedTensor>& of_memory) {
  static const nlohmann::json none;
  auto made = compressors::builtin().make(
      {.compressor = pair.compressor, .params = none, .memory = pair.memory, .memory_params = none, .setting = {}});
  compressors::Compressor& compressor = *made.value().compressor;
  compressors::Memory& memory = *made.value().memory;
  if (compressor.restore(of_compressor)) {
    ensure(compressor.restore(copies_of(compressor.save())).has_value(), "a compressor's own state");
  }
  if (memory.restore(of_memory)) ensure(memory.restore(copies_of(memory.save())).has_value(), "a memory's own state");

  const compressors::Round round{.seed = 5, .step = 3, .epoch = 1000};
  const std::vector<float> left_out(48, 0.5F);  // as many as the tensor has entries
  memory.add_unsent(round, 0, left_out);
  const auto compensated = memory.compensate(at::ones({6, 8}), round);
  if (!compensated) return;
  weir::Bytes payload;
  weir::Bytes scratch;
  (void)weir::training::encode_alone(compressor, *compensated, round, payload, nullptr, scratch);
}

}  // namespace

/// The input is a file of tensors, of which those that a compressor has saved are under "compressor.", and those of a
/// memory under "memory.".
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = weir::protocol::read_safetensors(weir::Segment::own(weir::Bytes(bytes.begin(), bytes.end())));
  if (!file) return 0;
  const auto of_compressor = weir::training::tensors_under(*file, "compressor.");
  const auto of_memory = weir::training::tensors_under(*file, "memory.");
  for (const Pair& pair : pairs) restore(pair, of_compressor, of_memory);
  return 0;
}
