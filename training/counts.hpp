#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// Numbers as a tensor of a checkpoint.
NamedTensor saved_counts(std::span<const std::uint64_t> numbers);
/// Finds them again. Fails with: malformed (there are not as many).
Result<std::vector<std::uint64_t>> restored_counts(std::span<const NamedTensor> state, std::size_t count);

}  // namespace weir::training
