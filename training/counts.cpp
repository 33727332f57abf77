#include "training/counts.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>

#include "base/errc.hpp"

namespace weir::training {
namespace {

constexpr std::string_view name = "counts";

}  // namespace

NamedTensor saved_counts(std::span<const std::uint64_t> numbers) {
  const at::Tensor all = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::ranges::transform(numbers, all.data_ptr<std::int64_t>(),
                         [](std::uint64_t number) { return static_cast<std::int64_t>(number); });
  return {std::string(name), all};
}

Result<std::vector<std::uint64_t>> restored_counts(std::span<const NamedTensor> state, std::size_t count) {
  const auto found = std::ranges::find(state, name, &NamedTensor::name);
  if (found == state.end() || found->tensor.scalar_type() != at::kLong || found->tensor.dim() != 1 ||
      found->tensor.numel() != static_cast<std::int64_t>(count)) {
    return Error{Errc::malformed,
                 "checkpoint: the training mode's tensor \"counts\" is missing or not as this version of weir writes "
                 "it; go on from a checkpoint of this version, or begin without one"};
  }
  const at::Tensor values = found->tensor.contiguous();
  const auto* const first = values.data_ptr<std::int64_t>();
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    if (first[i] < 0) return Error{Errc::malformed, "checkpoint: a count below zero"};
    numbers.push_back(static_cast<std::uint64_t>(first[i]));
  }
  return numbers;
}

}  // namespace weir::training
