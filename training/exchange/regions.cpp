#include "training/exchange/regions.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "base/errc.hpp"

namespace weir::training {

Regions::Regions(std::uint64_t entries, std::uint32_t ranks) : loads_(ranks) {
  for (std::uint64_t owner = 0; owner < ranks; ++owner) ends_.push_back(entries * (owner + 1) / ranks);
}

void Regions::end_round(std::span<const std::uint64_t> loads) {
  for (std::size_t owner = 0; owner < loads_.size(); ++owner) loads_[owner] += loads[owner];
  ++rounds_;
  if (rounds_ >= rounds_max || uneven(loads_)) return balance();
  if (!uneven(loads)) return;
  loads_.assign(loads.begin(), loads.end());  // what was before is not so any more
  balance();
}

bool Regions::uneven(std::span<const std::uint64_t> loads) {
  const std::uint64_t all = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
  return all >= load_min * loads.size() && 2 * loads.size() * std::ranges::max(loads) > 3 * all;
}

/// Moves the borders to where the loads become equal, if the entries within each region lie evenly.
void Regions::balance() {
  const std::uint64_t all = std::accumulate(loads_.begin(), loads_.end(), std::uint64_t{0});
  if (all > 0) {
    std::vector<std::uint64_t> ends = ends_;
    std::uint32_t region = 0;
    std::uint64_t before = 0;  // the load of the regions before this one
    for (std::size_t owner = 0; owner + 1 < ends.size(); ++owner) {
      const double due = static_cast<double>(all) * static_cast<double>(owner + 1) / static_cast<double>(ends.size());
      while (static_cast<double>(before + loads_[region]) < due) before += loads_[region++];
      const double share = (due - static_cast<double>(before)) / static_cast<double>(loads_[region]);
      const auto length = static_cast<double>(end(region) - begin(region));
      ends[owner] = begin(region) + static_cast<std::uint64_t>(share * length);
    }
    ends_ = std::move(ends);
  }
  std::ranges::fill(loads_, 0);
  rounds_ = 0;
}

at::Tensor Regions::save() const {
  const auto ranks = static_cast<std::int64_t>(ends_.size());
  const at::Tensor state = at::empty({1 + 2 * ranks}, at::kLong);
  std::int64_t* to = state.data_ptr<std::int64_t>();
  *to++ = static_cast<std::int64_t>(rounds_);
  for (const std::uint64_t end : ends_) *to++ = static_cast<std::int64_t>(end);
  for (const std::uint64_t load : loads_) *to++ = static_cast<std::int64_t>(load);
  return state;
}

Result<void> Regions::restore(const at::Tensor& state) {
  const std::size_t ranks = ends_.size();
  const bool fits = state.scalar_type() == at::kLong && state.is_contiguous() && state.dim() == 1 &&
                    state.numel() == static_cast<std::int64_t>(1 + 2 * ranks);
  if (!fits) return Error{Errc::malformed, "not the regions of " + std::to_string(ranks) + " ranks"};
  const std::span<const std::int64_t> numbers(state.data_ptr<std::int64_t>(), 1 + 2 * ranks);
  const auto ends = numbers.subspan(1, ranks);
  if (std::ranges::min(numbers) < 0 || std::ranges::max(numbers) >= std::int64_t{1} << 53 ||
      !std::ranges::is_sorted(ends) || ends.back() != static_cast<std::int64_t>(ends_.back())) {
    return Error{Errc::malformed, "not regions of " + std::to_string(ends_.back()) + " entries"};
  }
  rounds_ = static_cast<std::uint64_t>(numbers[0]);
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    ends_[owner] = static_cast<std::uint64_t>(ends[owner]);
    loads_[owner] = static_cast<std::uint64_t>(numbers[1 + ranks + owner]);
  }
  return {};
}

}  // namespace weir::training
