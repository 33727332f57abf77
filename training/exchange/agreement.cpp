#include "training/exchange/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/topologies/tree.hpp"

namespace weir::training {

using collectives::Subject;
using collectives::Task;

using collectives::ReduceOp;

namespace {

constexpr std::size_t sentence_bytes_max = 512;

Result<void> reduce(collectives::Fabric& fabric, std::span<float> numbers, ReduceOp op) {
  return fabric.thread().run([&]() -> Task<> {
    collectives::Tree tree(fabric.lane(0));
    const collectives::Buffer values{std::as_writable_bytes(numbers)};
    co_return co_await tree.all_reduce(values, op, Subject());
  });
}

constexpr std::uint64_t none = 0;  ///< in the place of a hash, where a rank has none

struct Differing {
  std::size_t rank = 0;
  std::size_t from = 0;  ///< the first of those that most ranks agree with
};

/// The first rank whose hash differs from that of most. `hashes`: by rank.
std::optional<Differing> find_differing(std::span<const std::uint64_t> hashes) {
  const auto count = [hashes](std::uint64_t hash) { return std::ranges::count(hashes, hash); };
  std::uint64_t usual = none;
  for (const std::uint64_t hash : hashes) {
    if (hash != none && (usual == none || count(hash) > count(usual))) usual = hash;
  }
  const auto differs = [usual](std::uint64_t hash) { return hash != none && hash != usual; };
  const auto differing = std::ranges::find_if(hashes, differs);
  if (differing == hashes.end()) return {};
  return Differing{.rank = static_cast<std::size_t>(differing - hashes.begin()),
                   .from = static_cast<std::size_t>(std::ranges::find(hashes, usual) - hashes.begin())};
}

/// What two ranks do not agree about, if there is something. `payloads`: by rank, the hashes of all things.
std::optional<Error> find_conflict(std::span<const Compared> things, std::span<const Bytes> payloads) {
  std::vector<std::uint64_t> counts;
  for (const Bytes& payload : payloads) counts.push_back(std::max<std::uint64_t>(1, payload.size()));
  if (const auto differing = find_differing(counts)) {
    return Error{Errc::conflict, "rank " + std::to_string(differing->rank) +
                                     " compares more or fewer things than rank " + std::to_string(differing->from) +
                                     ", beginning with the " + things.front().what};
  }
  std::vector<std::uint64_t> hashes(payloads.size());
  for (std::size_t i = 0; i < things.size(); ++i) {
    for (std::size_t rank = 0; rank < payloads.size(); ++rank) {
      std::memcpy(&hashes[rank], payloads[rank].data() + i * sizeof hashes[rank], sizeof hashes[rank]);
    }
    if (const auto differing = find_differing(hashes)) {
      return Error{Errc::conflict, "the " + things[i].what + " of rank " + std::to_string(differing->rank) +
                                       " differ from those of rank " + std::to_string(differing->from)};
    }
  }
  return {};
}

}  // namespace

Result<void> agree_on_largest(collectives::Fabric& fabric, std::span<float> numbers) {
  return reduce(fabric, numbers, ReduceOp::max);
}

Result<void> add_up(collectives::Fabric& fabric, std::span<float> numbers) {
  return reduce(fabric, numbers, ReduceOp::sum);
}

Result<void> expect_equal(collectives::Fabric& fabric, std::span<const Compared> things) {
  ensure(!things.empty(), "ranks compare something");
  std::vector<std::uint64_t> sent;
  for (const Compared& thing : things) sent.push_back(thing.hash ? std::max(none + 1, *thing.hash) : none);
  const auto own = std::as_bytes(std::span(sent));
  collectives::Gathered all{.payloads = {}, .bytes_max = own.size()};
  const auto gathered = fabric.thread().run([&]() -> Task<> {
    collectives::Tree tree(fabric.lane(0));
    co_return co_await tree.all_gather(own, all, Subject());
  });
  if (!gathered) return gathered.error();
  const auto conflict = find_conflict(things, all.payloads);
  if (!conflict) return {};
  // A rank that gives up ends what is under way: none does so before all have all hashes.
  std::array all_know{1.0F};
  (void)add_up(fabric, all_know);
  return *conflict;
}

Result<void> expect_equal(collectives::Fabric& fabric, std::optional<std::uint64_t> hash, const std::string& what) {
  const Compared thing{.what = what, .hash = hash};
  return expect_equal(fabric, std::span(&thing, 1));
}

Result<std::vector<std::string>> tell_all(collectives::Fabric& fabric, std::string sentence) {
  sentence.resize(std::min(sentence.size(), sentence_bytes_max));
  collectives::Gathered all{.payloads = {}, .bytes_max = sentence_bytes_max};
  const auto gathered = fabric.thread().run([&]() -> Task<> {
    collectives::Tree tree(fabric.lane(0));
    co_return co_await tree.all_gather(std::as_bytes(std::span(sentence)), all, Subject());
  });
  if (!gathered) return gathered.error();
  std::vector<std::string> told;
  for (const Bytes& payload : all.payloads) {
    std::string& text = told.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
  }
  return told;
}

}  // namespace weir::training
