#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::bench {

/// Numbers as a gradient has them: a slow line carries those in fewer bytes than they have (collectives/packing.hpp).
/// Others for each rank, the same in every run.
std::vector<float> normal_numbers(std::size_t count, std::uint32_t rank);

/// To be called after each round in which `values` have become the sum over all ranks. Sums grow from round to round,
/// after the first by the number of ranks: gives them their first size back, now and then.
void keep_finite(std::vector<float>& values, std::uint32_t round, std::size_t ranks);

}  // namespace weir::bench
