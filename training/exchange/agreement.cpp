#include "training/exchange/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/errc.hpp"
#include "collectives/topologies/tree.hpp"

namespace weir::training {

using collectives::Subject;
using collectives::Task;

using collectives::ReduceOp;

namespace {

Result<void> reduce(collectives::Fabric& fabric, std::span<float> numbers, ReduceOp op) {
  return fabric.thread().run([&]() -> Task<> {
    collectives::Tree tree(fabric.lane(0));
    const collectives::Buffer values{std::as_writable_bytes(numbers)};
    co_return co_await tree.all_reduce(values, op, Subject());
  });
}

}  // namespace

Result<void> agree_on_largest(collectives::Fabric& fabric, std::span<float> numbers) {
  return reduce(fabric, numbers, ReduceOp::max);
}

Result<void> add_up(collectives::Fabric& fabric, std::span<float> numbers) {
  return reduce(fabric, numbers, ReduceOp::sum);
}

Result<void> expect_equal(collectives::Fabric& fabric, std::optional<std::uint64_t> hash, const std::string& what) {
  const std::uint64_t sent = hash ? std::max<std::uint64_t>(1, *hash) : 0;
  const auto own = std::as_bytes(std::span(&sent, 1));
  constexpr std::array<std::byte, sizeof sent> none{};
  collectives::Gathered all{.payloads = {}, .bytes_max = own.size()};
  const auto gathered = fabric.thread().run([&]() -> Task<> {
    collectives::Tree tree(fabric.lane(0));
    co_return co_await tree.all_gather(own, all, Subject());
  });
  if (!gathered) return gathered.error();
  for (std::size_t rank = 0; rank < all.payloads.size(); ++rank) {
    if (!hash || std::ranges::equal(all.payloads[rank], own) || std::ranges::equal(all.payloads[rank], none)) continue;
    return Error{Errc::conflict, "the " + what + " of rank " + std::to_string(rank) + " differ from those of rank " +
                                     std::to_string(fabric.rank())};
  }
  return {};
}

}  // namespace weir::training
