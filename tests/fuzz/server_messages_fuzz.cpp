#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "training/job_parts.hpp"
#include "training/servers/buffers.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/parts.hpp"
#include "training/servers/tensor_coder.hpp"

namespace {

using weir::Errc;
using weir::training::NamedTensor;
using weir::training::servers::Answer;
using weir::training::servers::kind_of;
using weir::training::servers::MeanBuffers;
using weir::training::servers::name_of;
using weir::training::servers::part_of;
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

/// Two parameters of eight numbers and statistics of four.
class SmallModel final : public weir::training::Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return input; }
  std::vector<NamedTensor> parameters() const override { return parameters_; }
  std::vector<bool> decays() const override { return {true, true}; }
  std::vector<NamedTensor> buffers() const override { return buffers_; }
  void move_to(at::Device) override {}
  void set_training(bool) override {}

 private:
  const std::vector<NamedTensor> parameters_{{"wide", at::zeros({2, 3})}, {"narrow", at::zeros({2})}};
  const std::vector<NamedTensor> buffers_{{"mean", at::zeros({4})}};
};

/// Reads `body` as a server's part of the model.
void read_part(weir::BytesView body) {
  SmallModel model;
  Reader part(body);
  const auto taken = take_part(part, model, std::vector<std::uint32_t>{0, 1});
  weir::ensure(taken.has_value() == (body.size() == 8 * sizeof(float)), "a part is taken if its length is right");
  if (!taken) {
    weir::ensure(taken.error().code == Errc::malformed, "another reason");
  } else {
    weir::ensure(std::ranges::equal(part_of(model.parameters()), body), "what was sent is in the model");
  }
}

/// Reads `body` as the buffers of a worker, where another one has sent zeros.
void read_buffers(weir::BytesView body) {
  const SmallModel model;
  MeanBuffers mean(2);
  mean.take(0, weir::Bytes(4 * sizeof(float)), model).value();
  const auto taken = mean.take(1, body, model);
  mean.put_into(model);
  weir::ensure(taken || taken.error().code == Errc::malformed, "another reason");
  weir::ensure(!taken || body.size() == 4 * sizeof(float), "buffers of another length");
  for (const auto& [name, tensor] : model.buffers()) {
    for (const float value : weir::compressors::flat(std::as_const(tensor))) {
      weir::ensure(std::isfinite(value), "buffers that are not finite");
      weir::ensure(taken || value == 0, "what was refused changes nothing");
    }
  }
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
  read_part(body);
  read_buffers(body);
  return 0;
}
