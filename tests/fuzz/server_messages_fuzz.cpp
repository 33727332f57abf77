#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "base/ensure.hpp"
#include "training/job_parts.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/tensor_coder.hpp"

namespace {

using weir::training::servers::Answer;
using weir::training::servers::kind_of;
using weir::training::servers::name_of;
using weir::training::servers::Reader;
using weir::training::servers::Rest;
using weir::training::servers::TensorCoder;
using weir::training::servers::Turn;

/// Reads `body` as the tensors of a push and of an answer.
void read_tensors(const char* compressor, weir::BytesView body) {
  weir::protocol::JobSpec spec;
  spec.compression.compressor = {compressor, nlohmann::json::object()};
  auto compression = weir::training::make_compression(spec).value();
  TensorCoder coder(compression, {.seed = 1, .course = {.epochs = 1}, .steps_per_epoch = 10, .workers = 2});
  const Turn turn{.worker = 1, .clock = 3, .step = 20};
  Reader push(body);
  weir::training::Mean mean{.tensor = at::zeros({8, 4}), .sparse = false, .positions = {}};
  (void)coder.read_gradient(push, 0, turn, 1, true, mean);
  for (const auto position : mean.positions) weir::ensure(position < 32, "a position outside of the tensor");
  Reader answer(body);
  at::Tensor copy = at::zeros({8, 4});
  (void)coder.read_difference(answer, 0, turn, copy);
}

}  // namespace

/// Any bytes are either refused or read as what servers and workers tell each other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const weir::Bytes body(bytes.begin(), bytes.end());
  if (const auto push = Reader(body).push()) weir::ensure(size >= 32, "a push that is cut short");
  if (const auto answer = Reader(body).answer()) weir::ensure(answer->flags < Answer::flags_end, "an unknown flag");
  if (const auto rest = Reader(body).rest()) weir::ensure(rest->flags < Rest::flags_end, "an unknown flag");
  std::uint32_t kind = 0;
  std::memcpy(&kind, data, std::min(size, sizeof(kind)));
  if (const auto known = kind_of({.version = 0, .bucket = kind, .part = 0})) {
    weir::ensure(!name_of(*known).empty(), "a kind without a name");
  }
  for (const char* compressor : {"none", "topk", "qsgd"}) read_tensors(compressor, body);
  return 0;
}
