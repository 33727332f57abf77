#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::training {

// What keeps the volume of an exchange by regions under 6k words, with k entries of two words each from every one of P
// ranks. A rank may send 3/2 of a P-th of its entries to one owner, and an owner as many back: it receives less than
// 3/2 k entries from all ranks, and everybody less than 3/2 k from all owners. More would seldom be of use: of a region
// no more than that comes back, and what a rank holds back is the smallest of what it has there.

/// How many entries may be sent to one owner, or sent back by it, if `ranks` ranks have chosen `chosen` entries each:
/// 3/2 of `chosen` / `ranks`, rounded up in some turns and down in others, so that it is floor(3/2 `chosen`) in all
/// over `ranks` consecutive turns. One at least: where fewer entries are chosen than there are ranks, the limit is one
/// entry from and to each.
std::uint64_t allowance(std::uint64_t chosen, std::uint32_t ranks, std::uint64_t turn);

/// The same, with the sum of what all ranks have chosen.
std::uint64_t allowance_of_all(std::uint64_t chosen_by_all, std::uint32_t ranks, std::uint64_t turn);

/// Divides `total` between those who want something of it, in proportion to their weights; who wants less than that
/// leaves the rest to the others. `weights`: above zero where something is wanted. Fills `shares`.
void share_out(std::uint64_t total, std::span<const std::uint64_t> wanted, std::span<const std::uint64_t> weights,
               std::vector<std::uint64_t>& shares);

}  // namespace weir::training
