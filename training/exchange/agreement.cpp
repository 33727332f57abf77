#include "training/exchange/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/bytes.hpp"
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

struct Differing {
  std::size_t rank = 0;
  std::size_t from = 0;  ///< the first of those that most ranks agree with
};

/// The first rank whose hash differs from that of most. `hashes`: by rank; 0: it has none.
std::optional<Differing> find_differing(std::span<const Bytes> hashes) {
  constexpr std::array<std::byte, sizeof(std::uint64_t)> none{};
  const auto has_one = [&none](const Bytes& hash) { return !std::ranges::equal(hash, none); };
  const auto count = [hashes](const Bytes& hash) { return std::ranges::count(hashes, hash); };
  const auto some = std::ranges::find_if(hashes, has_one);
  if (std::ranges::all_of(hashes, [&](const Bytes& hash) { return !has_one(hash) || hash == *some; })) return {};
  auto usual = some;
  for (auto other = some; other != hashes.end(); ++other) {
    if (has_one(*other) && count(*other) > count(*usual)) usual = other;
  }
  const auto differs = [&](const Bytes& hash) { return has_one(hash) && hash != *usual; };
  return Differing{.rank = static_cast<std::size_t>(std::ranges::find_if(hashes, differs) - hashes.begin()),
                   .from = static_cast<std::size_t>(usual - hashes.begin())};
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
  collectives::Gathered all{.payloads = {}, .bytes_max = own.size()};
  const auto gathered = fabric.thread().run([&]() -> Task<> {
    collectives::Tree tree(fabric.lane(0));
    co_return co_await tree.all_gather(own, all, Subject());
  });
  if (!gathered) return gathered.error();
  const auto differing = find_differing(all.payloads);
  if (!differing) return {};
  // A rank that gives up ends what is under way: none does so before all have all hashes.
  std::array all_know{1.0F};
  (void)add_up(fabric, all_know);
  return Error{Errc::conflict, "the " + what + " of rank " + std::to_string(differing->rank) +
                                   " differ from those of rank " + std::to_string(differing->from)};
}

}  // namespace weir::training
