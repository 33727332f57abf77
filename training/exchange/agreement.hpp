#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "collectives/fabric.hpp"

namespace weir::training {

/// Makes each of `numbers` the largest of all ranks'. Fails with what the group fails with.
Result<void> agree_on_largest(collectives::Fabric& fabric, std::span<float> numbers);

/// Makes each of `numbers` the sum of all ranks'. Fails likewise.
Result<void> add_up(collectives::Fabric& fabric, std::span<float> numbers);

/// Checks that all ranks have the same hash of `what` ("parameters"), except for those that have none. Fails with:
/// conflict, on all ranks (names one that differs from most), and with what the group fails with.
Result<void> expect_equal(collectives::Fabric& fabric, std::optional<std::uint64_t> hash, const std::string& what);

}  // namespace weir::training
