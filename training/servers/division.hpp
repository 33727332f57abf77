#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "training/models/model.hpp"

namespace weir::training::servers {

/// Divides tensors among servers, whole ones, given their numbers of entries: the largest first, each to the server
/// that has least so far (Graham 1969). No server has more than the average and one tensor, the largest, and none more
/// than 4/3 of what it would have in the best division. Returns the tensors of each server, ascending; every rank finds
/// the same.
std::vector<std::vector<std::uint32_t>> divide(std::span<const std::uint64_t> entries, std::uint32_t servers);

/// The same of a model's parameters.
std::vector<std::vector<std::uint32_t>> divide(std::span<const NamedTensor> parameters, std::uint32_t servers);

}  // namespace weir::training::servers
