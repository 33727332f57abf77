#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "training/models/model.hpp"

namespace weir::training::servers {

// Of a checkpoint: names under a rank's prefix.

/// Before the names of the parameters, as a worker has them.
inline constexpr std::string_view copy_prefix = "copy.";

/// Numbers as a tensor.
NamedTensor saved_counts(std::span<const std::uint64_t> numbers);
/// Finds them again. Fails with: malformed (there are not as many).
Result<std::vector<std::uint64_t>> restored_counts(std::span<const NamedTensor> state, std::size_t count);

}  // namespace weir::training::servers
