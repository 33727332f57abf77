#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
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

/// A tensor in the middle of a larger buffer, whose other floats must stay as they are.
class Destination {
 public:
  explicit Destination(at::IntArrayRef shape) {
    std::size_t entries = 1;
    for (const std::int64_t extent : shape) entries *= static_cast<std::size_t>(extent);
    buffer_.resize(entries + 2 * guard);
    sum_ = at::from_blob(buffer_.data() + guard, shape, at::kFloat);
  }

  /// Decodes a payload, and does everything else that is done with one that was accepted.
  void decode(Compressor& compressor, BytesView payload, const Round& round) {
    std::ranges::fill(buffer_, 0.0F);
    if (compressor.decode_add(payload, round, 1, sum_)) {
      const Traits traits = compressor.traits();
      // A sum of floats is what it is; what a payload says is a number.
      ensure(traits.passes.back() != Reduction::gather ||
                 std::ranges::all_of(buffer_, [](float x) { return std::isfinite(x); }),
             "decoded what is not a number");
      if (traits.votes) compressor.conclude(sum_, round).value();
    }
    const auto untouched = [](float x) { return x == 0; };
    ensure(std::all_of(buffer_.begin(), buffer_.begin() + guard, untouched), "wrote before the tensor");
    ensure(std::all_of(buffer_.end() - guard, buffer_.end(), untouched), "wrote behind the tensor");
    const std::size_t entries = buffer_.size() - 2 * guard;
    if (compressor.traits().selects) read_part(compressor, payload, entries);
    weir::compressors::Selection read;
    if (!compressor.read_entries(payload, round, entries, read)) return;
    ensure(read.positions.size() == read.values.size(), "as many values as positions");
    for (const std::uint32_t position : read.positions) ensure(position < entries, "a position outside of the tensor");
    const auto not_ascending = std::ranges::adjacent_find(read.positions, std::ranges::greater_equal());
    ensure(not_ascending == read.positions.end(), "positions do not ascend");
  }

 private:
  static void read_part(Compressor& compressor, BytesView payload, std::size_t entries) {
    weir::compressors::Selection read;
    if (!compressor.read_part(payload, static_cast<std::uint32_t>(entries), read)) return;
    ensure(read.positions.size() == read.values.size(), "as many values as positions");
    ensure(read.positions.empty() || read.positions.back() < entries, "a position outside of the part");
    ensure(std::ranges::adjacent_find(read.positions, std::ranges::greater_equal()) == read.positions.end(),
           "positions that do not ascend");
    ensure(std::ranges::all_of(read.values, [](float x) { return std::isfinite(x); }), "a value that is not a number");
  }

  static constexpr std::ptrdiff_t guard = 64;

  std::vector<float> buffer_;
  at::Tensor sum_;
};

/// What an honest rank would encode.
at::Tensor gradient(at::IntArrayRef shape) {
  static const at::Tensor ramp = [] {
    const at::Tensor all = at::empty({4096}, at::kFloat);
    for (std::int64_t i = 0; i < all.numel(); ++i) {
      all.data_ptr<float>()[i] = static_cast<float>(i * 7919 % 257 - 128) / 64;
    }
    return all;
  }();
  std::int64_t entries = 1;
  for (const std::int64_t extent : shape) entries *= extent;
  return ramp.narrow(0, 0, entries).view(shape);
}

/// The passes of a round of two ranks. Of pass `target` the second sends `hostile`, or that is the sum, then as long as
/// it has to be. Gives the formats of what an honest rank sends, 0 for what is summed.
std::vector<std::uint8_t> run_round(Compressor& compressor, at::IntArrayRef shape, std::uint32_t target,
                                    BytesView hostile) {
  std::vector<std::uint8_t> formats;
  Round round = fuzz::input_round();
  round.world = 2;
  const auto passes = compressor.traits().passes;
  for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
    Bytes own;
    if (!compressor.encode(gradient(shape), round, own)) break;
    Bytes other = own;
    const bool summed = passes[round.pass] != Reduction::gather;
    formats.push_back(summed ? 0 : std::to_integer<std::uint8_t>(own[1]));
    if (round.pass == target) other.assign(hostile.begin(), hostile.end());
    if (summed) other.resize(own.size());
    const std::array<BytesView, 2> results{summed ? other : own, other};
    if (!compressor.absorb(std::span(results).first(summed ? 1 : 2), round)) break;
    if (round.pass + 1 < passes.size()) continue;
    Destination destination(shape);
    destination.decode(compressor, results[0], round);
    destination.decode(compressor, results[1], round);
  }
  return formats;
}

/// A compressor that meets every input, and what its passes send, if it has several or a state.
struct Target {
  fuzz::NamedParams choice;
  std::unique_ptr<Compressor> compressor;
  std::vector<std::uint8_t> formats;
};

std::vector<Target> every_target() {
  std::vector<Target> all;
  for (const fuzz::NamedParams& choice : fuzz::every_choice()) {
    Target target{choice, make(choice), {}};
    const Traits traits = target.compressor->traits();
    if (traits.passes.size() > 1 || traits.stateful) target.formats = run_round(*make(choice), {16, 12}, 99, {});
    all.push_back(std::move(target));
  }
  return all;
}

}  // namespace

/// The rest of an input (payload_input.hpp) goes to every compressor's decoder; or, for a pass, to those that have
/// several passes or a state, among what the ranks sent.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Target> targets = every_target();
  const auto input = fuzz::PayloadInput::of(std::span(data, size));
  if (!input) return 0;
  BytesView stream = input->rest;
  while (const auto payload = take_payload(stream)) ensure(!payload->empty(), "no progress");
  const Bytes body = input->format == 0 ? Bytes() : sealed(input->format, input->rest);
  const BytesView payload = input->format == 0 ? input->rest : BytesView(body);
  Destination destination(input->shape);
  for (const Target& target : targets) {
    if (!input->pass) {
      Round round = fuzz::input_round();
      round.pass = static_cast<std::uint32_t>(target.compressor->traits().passes.size()) - 1;
      destination.decode(*target.compressor, payload, round);
    } else if (*input->pass < target.formats.size() && target.formats[*input->pass] == input->format) {
      run_round(*make(target.choice), input->shape, *input->pass, payload);  // its state is this input's alone
    }
  }
  return 0;
}
