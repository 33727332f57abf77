#include "training/exchange/allowance.hpp"

#include <algorithm>
#include <numeric>

namespace weir::training {
namespace {

using Product = unsigned __int128;

/// The share of `turn` in the whole numbers up to `sum` / `divisor` per turn.
std::uint64_t share_of_turn(std::uint64_t sum, std::uint64_t divisor, std::uint64_t turn) {
  return std::max<std::uint64_t>(1, (turn + 1) * sum / divisor - turn * sum / divisor);
}

}  // namespace

std::uint64_t allowance(std::uint64_t chosen, std::uint32_t ranks, std::uint64_t turn) {
  return share_of_turn(3 * chosen, 2 * std::uint64_t{ranks}, turn % ranks);
}

std::uint64_t allowance_of_all(std::uint64_t chosen_by_all, std::uint32_t ranks, std::uint64_t turn) {
  return share_of_turn(3 * chosen_by_all, 2 * std::uint64_t{ranks} * ranks, turn % ranks);
}

void share_out(std::uint64_t total, std::span<const std::uint64_t> wanted, std::span<const std::uint64_t> weights,
               std::vector<std::uint64_t>& shares) {
  shares.assign(wanted.begin(), wanted.end());
  if (std::accumulate(wanted.begin(), wanted.end(), std::uint64_t{0}) <= total) return;
  // Those who want least for their weight first: what they leave is divided between the others.
  static thread_local std::vector<std::size_t> order;
  order.clear();
  std::uint64_t weight = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0) continue;
    order.push_back(i);
    weight += weights[i];
  }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const Product left = Product{wanted[a]} * weights[b];
    const Product right = Product{wanted[b]} * weights[a];
    return left != right ? left < right : a < b;
  });
  for (const std::size_t i : order) {
    shares[i] = std::min(wanted[i], static_cast<std::uint64_t>(Product{total} * weights[i] / weight));
    total -= shares[i];
    weight -= weights[i];
  }
}

}  // namespace weir::training
