#include "compressors/transforms/demo.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "compressors/kernels/selection/floor.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sparsifiers/codec_params.hpp"
#include "compressors/transforms/dct.hpp"
#include "compressors/transforms/matrix.hpp"

namespace weir::compressors {
namespace {

void append(const Selection& from, std::size_t offset, Selection& to) {
  for (const std::uint32_t position : from.positions) {
    to.positions.push_back(position + static_cast<std::uint32_t>(offset));
  }
  to.values.insert(to.values.end(), from.values.begin(), from.values.end());
}

/// Like select_largest(), but faster for a block.
void select(std::span<const float> values, std::size_t count, Selection& out) {
  (void)collect(values, std::max(floor_of_largest(values, count), 1U), values.size(), out);
  if (out.size() > count) trim(out, cut_at_rank(out.values, count));
}

}  // namespace

nlohmann::json Demo::default_memory_params() { return {{"beta", 0.999}}; }

protocol::Params<Demo::Options> Demo::params() {
  return with_codecs(protocol::Params<Options>()
                         .integer("chunk", &Options::chunk, {.minimum = 1.0, .maximum = double{cosine_side_max}},
                                  "Longest side of a block.")
                         .integer("per_chunk", &Options::per_chunk,
                                  {.minimum = 1.0, .maximum = double{cosine_side_max * cosine_side_max}},
                                  "Coefficients of each block that are sent.")
                         .flag("sign", &Options::sign, "Agree on the sign of the mean, not on the mean."));
}

Result<void> Demo::conclude(at::Tensor& mean, const Round&) {
  if (!options_.sign) return {};
  if (!mean.is_cpu()) {
    mean.sign_();
    return {};
  }
  for (float& value : flat(mean)) value = static_cast<float>((value > 0) - (value < 0));
  return {};
}

double Demo::error_bound(std::uint64_t entries, const Round&) const {
  if (entries == 0) return 0;
  const auto side = static_cast<double>(options_.chunk);
  const double block = std::min(side * side, static_cast<double>(entries));
  const double share = std::min(static_cast<double>(options_.per_chunk) / block, 1.0);
  // The transform and its inverse add rounding errors.
  return 1 - share * (1 - value_codec_named(options_.codecs.value).error_bound) + 1e-10;
}

Result<void> Demo::choose(const at::Tensor& gradient, const Round& round) {
  selection_.clear();
  if (gradient.numel() == 0) return {};
  const BlockGrid grid(matrix_shape(gradient.sizes()), static_cast<std::size_t>(options_.chunk));
  const auto per_chunk = static_cast<std::size_t>(options_.per_chunk);
  bool finite = true;
  if (gradient.is_cpu()) {
    const std::span<const float> values = flat(gradient);
    finite = select_blocks(grid, selection_, [&](std::size_t first, std::size_t last, Selection& part) {
      thread_local Selection chosen;  // kept between calls to reuse its memory
      return transform_blocks(grid, values, first, last, [&](std::size_t, const auto& block, auto coefficients) {
        select(coefficients, std::min(per_chunk, coefficients.size()), chosen);
        append(chosen, block.position, part);
      });
    });
  } else {
    const auto coefficients = device::transform(gradient, grid);
    if (!coefficients) return coefficients.error();
    const device::DeviceValues all(*coefficients, nullptr);
    if (auto chosen = all.select_of_blocks(grid, per_chunk, selection_); !chosen) return chosen;
    finite = all_finite(selection_.values);
  }
  return finite ? Result<void>() : non_finite(round, gradient);
}

Result<void> Demo::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto chosen = choose(gradient, round); !chosen) return chosen;
  const auto entries = static_cast<std::uint32_t>(gradient.numel());
  write_sparse(selection_, SparseExtent{Format::dct, entries, entries},
               choose_index_codec(options_.codecs.index, selection_.positions, entries),
               value_codec_named(options_.codecs.value), out, parallel_parts(coding_work * selection_.size()));
  return {};
}

Result<void> Demo::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const auto entries = static_cast<std::uint32_t>(sum.numel());
  const auto read = read_sparse(payload, SparseExtent{Format::dct, entries, entries}, read_);
  if (!read) return read.error();
  if (entries == 0) return {};
  return add_inverse(BlockGrid(matrix_shape(sum.sizes()), static_cast<std::size_t>(options_.chunk)), read_, weight,
                     sum);
}

}  // namespace weir::compressors
