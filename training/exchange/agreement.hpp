#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"

namespace weir::training {

/// Makes each of `numbers` the largest of all ranks'. Fails with what the group fails with.
Result<void> agree_on_largest(collectives::Fabric& fabric, std::span<float> numbers);

/// Makes each of `numbers` the sum of all ranks'. Fails likewise.
Result<void> add_up(collectives::Fabric& fabric, std::span<float> numbers);

/// Something that must be the same on all ranks.
struct Compared {
  std::string what;                   ///< in the plural: "parameters"
  std::optional<std::uint64_t> hash;  ///< of it on this rank, if it has any
};

/// Checks that all ranks have the same hashes of all things, but for the ranks that have none of one. All ranks name
/// the same things, at least one. Fails with: conflict, on all ranks (names the first thing that is not the same, and a
/// rank that differs in it from most), and with what the group fails with.
Result<void> expect_equal(collectives::Fabric& fabric, std::span<const Compared> things);
Result<void> expect_equal(collectives::Fabric& fabric, std::optional<std::uint64_t> hash, const std::string& what);

/// Tells all ranks a sentence, of which the first 512 bytes arrive, or nothing. Returns what each of them tells, by
/// rank and without anything unprintable. Fails with what the group fails with.
Result<std::vector<std::string>> tell_all(collectives::Fabric& fabric, std::string sentence);

}  // namespace weir::training
