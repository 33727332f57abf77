#include "training/gossip/consensus_step.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.hpp"
#include "compressors/flat.hpp"
#include "training/gossip/choco.hpp"

namespace weir::training {
namespace {

using compressors::Round;

/// More rows of a tensor than have so many entries tell nothing more.
constexpr std::int64_t entries_max = 1 << 18;
/// Over so many entries the relative error is averaged: of small tensors, several are drawn.
constexpr std::int64_t entries_enough = 1 << 14;
constexpr int draws_max = 8;
/// After every warm-up.
const Round settled{.step = 1'000'000'000, .epoch = 1e9};

/// By Box and Muller.
void fill_with_normal(at::Tensor& tensor, const Philox& random, std::uint64_t draw) {
  const auto values = compressors::flat(tensor);
  const auto uniform = [](std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto block = random.at(draw, 0, static_cast<std::uint32_t>(i));
    const double length = std::sqrt(-2 * std::log(uniform(block[0])));
    values[i] = static_cast<float>(length * std::cos(2 * std::numbers::pi * uniform(block[1])));
  }
}

}  // namespace

double contraction_of(compressors::Compressor& compressor, at::IntArrayRef shape, std::uint64_t seed) {
  const std::uint64_t entries = compressors::entries_of(shape);
  if (entries == 0) return 1;
  const double scale = Choco::scale_of(compressor, entries);
  // Of an unbiased compressor with the variance factor v, that is 1 / (1 + v).
  const double known = compressor.traits().biased ? 1 - compressor.error_bound(entries, settled) : scale;

  std::vector<std::int64_t> rows(shape.begin(), shape.end());
  const auto of_a_row = static_cast<std::int64_t>(entries) / rows.front();
  rows.front() = std::clamp<std::int64_t>(entries_max / std::max<std::int64_t>(of_a_row, 1), 1, rows.front());
  at::Tensor tensor = at::empty(rows, at::kFloat);
  at::Tensor decoded = at::zeros(rows, at::kFloat);
  double all = 0;
  double left = 0;
  const Philox random(seed);
  for (int draw = 0; draw < draws_max && draw * tensor.numel() < entries_enough; ++draw) {
    fill_with_normal(tensor, random, static_cast<std::uint64_t>(draw));
    Round round = settled;
    round.seed = seed;
    round.step += static_cast<std::uint64_t>(draw);
    Bytes payload;
    decoded.zero_();
    if (!compressor.encode(tensor, round, payload)) continue;
    if (!compressor.decode_add(payload, round, static_cast<float>(scale), decoded)) continue;
    const auto of = compressors::flat(tensor);
    const auto is = compressors::flat(decoded);
    for (std::size_t i = 0; i < of.size(); ++i) {
      all += static_cast<double>(of[i]) * of[i];
      left += std::pow(static_cast<double>(of[i]) - is[i], 2);
    }
  }
  const double found = all > 0 ? 1 - left / all : 0;
  return std::min(1.0, std::max({known, found, 0.0}));
}

}  // namespace weir::training
