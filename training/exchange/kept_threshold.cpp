#include "training/exchange/kept_threshold.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/errc.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::training {

void KeptThreshold::end_round(std::span<const float> returned, std::uint64_t due) {
  const std::uint64_t count = returned.size();
  const bool fits = 3 * count >= 2 * due && 3 * count <= 4 * due;
  if (magnitude_ != none && fits && ++rounds_ < rounds_max) return;
  rounds_ = 0;
  magnitude_ = none;
  if (due > 0 && count >= due) magnitude_ = std::max(compressors::cut_at_rank(returned, due).magnitude, none);
}

at::Tensor KeptThreshold::save() const {
  const at::Tensor state = at::empty({2}, at::kLong);
  state.data_ptr<std::int64_t>()[0] = magnitude_;
  state.data_ptr<std::int64_t>()[1] = rounds_;
  return state;
}

Result<void> KeptThreshold::restore(const at::Tensor& state) {
  if (state.scalar_type() != at::kLong || !state.is_contiguous() || state.numel() != 2) {
    return Error{Errc::malformed, "not a threshold and its age"};
  }
  const std::int64_t* numbers = state.data_ptr<std::int64_t>();
  if (numbers[0] < none || numbers[0] >= compressors::magnitude_infinite || numbers[1] < 0 ||
      numbers[1] >= rounds_max) {
    return Error{Errc::malformed, "a threshold that is not a number, or an age that none reaches"};
  }
  magnitude_ = static_cast<std::uint32_t>(numbers[0]);
  rounds_ = static_cast<std::uint32_t>(numbers[1]);
  return {};
}

}  // namespace weir::training
