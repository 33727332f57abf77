#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ensure.hpp"
#include "payload_input.hpp"

namespace {

using namespace weir;
using namespace weir::compressors;

std::unique_ptr<Compressor> make(const fuzz::NamedParams& it) {
  return builtin().make_compressor(it.name, it.params).value();
}

/// The body under a good header and checksum, which a search would hardly find by itself.
Bytes sealed(std::uint8_t format, BytesView body) {
  Bytes out;
  PayloadWriter writer(out, static_cast<Format>(format), body.size());
  std::ranges::copy(body, writer.body().begin());
  writer.seal();
  return out;
}

/// Decodes into the middle of a larger buffer, whose other floats must stay as they are; then everything else that is
/// done with a payload that was accepted.
void decode(Compressor& compressor, BytesView payload, const Round& round, at::IntArrayRef shape) {
  constexpr std::size_t guard = 64;
  std::size_t entries = 1;
  for (const std::int64_t extent : shape) entries *= static_cast<std::size_t>(extent);
  std::vector<float> buffer(entries + 2 * guard);
  at::Tensor sum = at::from_blob(buffer.data() + guard, shape, at::kFloat);
  const Traits traits = compressor.traits();
  if (compressor.decode_add(payload, round, 1, sum)) {
    // A sum of floats is what it is; what a payload says is a number.
    ensure(traits.passes.back() != Reduction::gather ||
               std::ranges::all_of(buffer, [](float x) { return std::isfinite(x); }),
           "decoded what is not a number");
    if (traits.votes) compressor.conclude(sum, round);
  }
  const auto untouched = [](float x) { return x == 0; };
  ensure(std::all_of(buffer.begin(), buffer.begin() + guard, untouched), "wrote before the tensor");
  ensure(std::all_of(buffer.end() - guard, buffer.end(), untouched), "wrote behind the tensor");
  std::vector<std::uint32_t> positions;
  if (!compressor.support(payload, round, entries, positions)) return;
  for (const std::uint32_t position : positions) ensure(position < entries, "a position outside of the tensor");
  ensure(std::ranges::adjacent_find(positions, std::greater_equal()) == positions.end(), "positions do not ascend");
}

/// What an honest rank would encode.
at::Tensor gradient(at::IntArrayRef shape) {
  const at::Tensor ramp = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < ramp.numel(); ++i) {
    ramp.data_ptr<float>()[i] = static_cast<float>(i * 7919 % 257 - 128) / 64;
  }
  return ramp;
}

/// A round in which `hostile` comes for the pass `target`: from another rank, or as the sum, then as long as it has to
/// be.
void run_round(Compressor& compressor, std::uint32_t target, BytesView hostile, at::IntArrayRef shape) {
  const at::Tensor honest = gradient(shape);
  Round round = fuzz::input_round();
  round.world = 2;
  const auto passes = compressor.traits().passes;
  for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
    Bytes own;
    if (!compressor.encode(honest, round, own)) return;
    Bytes other = own;
    const bool summed = passes[round.pass] != Reduction::gather;
    if (round.pass == target) other.assign(hostile.begin(), hostile.end());
    if (summed) other.resize(own.size());
    const std::array<BytesView, 2> results{summed ? other : own, other};
    if (!compressor.absorb(std::span(results).first(summed ? 1 : 2), round)) return;
    if (round.pass + 1 < passes.size()) continue;
    decode(compressor, results[0], round, shape);
    decode(compressor, results[1], round, shape);
  }
}

}  // namespace

/// The rest of an input (payload_input.hpp) goes to every compressor's decoder; or, for a pass, to those that have
/// several passes or a state, among what the ranks sent.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<fuzz::NamedParams> choices = fuzz::every_choice();
  static const std::vector<std::unique_ptr<Compressor>> compressors = [] {
    std::vector<std::unique_ptr<Compressor>> all;
    for (const auto& it : choices) all.push_back(make(it));
    return all;
  }();
  const auto input = fuzz::PayloadInput::of(std::span(data, size));
  if (!input) return 0;
  BytesView stream = input->rest;
  while (const auto payload = take_payload(stream)) ensure(!payload->empty(), "no progress");
  const Bytes body = input->format == 0 ? Bytes() : sealed(input->format, input->rest);
  const BytesView payload = input->format == 0 ? input->rest : BytesView(body);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Traits traits = compressors[i]->traits();
    if (!input->pass) {
      Round round = fuzz::input_round();
      round.pass = static_cast<std::uint32_t>(traits.passes.size()) - 1;
      decode(*compressors[i], payload, round, input->shape);
    } else if (*input->pass < traits.passes.size() && (traits.passes.size() > 1 || traits.stateful)) {
      run_round(*make(choices[i]), *input->pass, payload, input->shape);  // its state is this input's alone
    }
  }
  return 0;
}
