#include "training/exchange/shares.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/DimVector.h>

#include <algorithm>

#include "base/ensure.hpp"

namespace weir::training {

using compressors::NamedTensor;

at::Tensor Piece::of(const at::Tensor& whole, at::Tensor& view) const {
  if (rows == 0) return whole;
  ensure(whole.is_contiguous(), "rows that follow one another");
  if (!view.defined() || view.dtype() != whole.dtype() || view.device() != whole.device()) {
    c10::DimVector shape(whole.sizes().begin(), whole.sizes().end());
    shape[0] = rows;
    view = at::empty({0}, whole.options());
    view.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  }
  // What narrow() returns, but it makes a new tensor each time.
  c10::TensorImpl& shown = *view.unsafeGetTensorImpl();
  shown.set_storage_keep_dtype(whole.storage());
  shown.set_storage_offset(whole.storage_offset() + static_cast<std::int64_t>(first_entry));
  return view;
}

void show_nothing(at::Tensor& view) {
  static const at::Tensor nothing = at::empty({0}, at::kFloat);
  if (view.defined()) view.unsafeGetTensorImpl()->set_storage_keep_dtype(nothing.storage());
}

std::vector<Piece> whole_parameters(std::span<const NamedTensor> parameters, const Bucket& bucket) {
  std::vector<Piece> pieces;
  for (const auto p : bucket.parameters) {
    pieces.push_back({.parameter = p, .entries = static_cast<std::uint64_t>(parameters[p].tensor.numel())});
  }
  return pieces;
}

std::vector<Piece> shares_of_owners(std::span<const NamedTensor> parameters, const Bucket& bucket,
                                    std::uint32_t owners) {
  std::int64_t all = 0;
  for (const auto p : bucket.parameters) all += parameters[p].tensor.numel();
  std::vector<Piece> pieces;
  std::int64_t begin = 0;  // of the parameter among the entries of the bucket
  for (const auto p : bucket.parameters) {
    const at::Tensor& tensor = parameters[p].tensor;
    const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    if (tensor.numel() == 0) {
      pieces.push_back({.parameter = p, .owner = pieces.empty() ? 0 : pieces.back().owner});
      continue;
    }
    const std::int64_t row = tensor.numel() / rows;
    std::int64_t first = 0;
    for (std::uint32_t owner = 0; owner < owners && first < rows; ++owner) {
      // The share ends at this entry of the parameter; the cut is between the nearest rows.
      const std::int64_t end = all * (owner + 1) / owners - begin;
      const std::int64_t last =
          owner + 1 == owners ? rows : std::min(rows, std::max<std::int64_t>(0, end + row / 2) / row);
      if (last <= first) continue;
      const bool whole = last - first == rows;
      pieces.push_back({.parameter = p,
                        .owner = owner,
                        .first_row = first,
                        .rows = whole ? 0 : last - first,
                        .first_entry = static_cast<std::uint64_t>(first * row),
                        .entries = static_cast<std::uint64_t>((last - first) * row)});
      first = last;
    }
    begin += tensor.numel();
  }
  return pieces;
}

}  // namespace weir::training
