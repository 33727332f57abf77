#include "collectives/topologies/binary_blocks.hpp"

#include <bit>

#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"
#include "collectives/topologies/halving.hpp"

namespace weir::collectives {
namespace {

/// Consecutive ranks, as many as a power of two.
struct Block {
  std::uint32_t first = 0;
  std::uint32_t size = 0;
};

Block largest(std::uint32_t ranks) { return {0, std::bit_floor(ranks)}; }
/// The next smaller one; of size 0 after the last.
Block after(const Block& block, std::uint32_t ranks) {
  const std::uint32_t first = block.first + block.size;
  return {first, first < ranks ? std::bit_floor(ranks - first) : 0};
}

/// The block that `rank` is in and its neighbours; of size 0 where there is none.
struct Neighbourhood {
  Block larger;
  Block own;
  Block smaller;
};

Neighbourhood around(std::uint32_t rank, std::uint32_t ranks) {
  Neighbourhood found{{}, largest(ranks), after(largest(ranks), ranks)};
  while (rank >= found.own.first + found.own.size) found = {found.own, found.smaller, after(found.smaller, ranks)};
  return found;
}

}  // namespace

// The values are cut into as many chunks as the largest block has ranks. In a block of s ranks each is responsible for
// 1/s of the chunks, which in the next larger block belong to several ranks, one message for each.
Task<> BinaryBlocks::combine_all(Buffer values, ReduceOp op, Subject about) {
  const auto [larger, own, smaller] = around(rank(), ranks());
  const std::uint32_t place = rank() - own.first;
  const Halving halving{.values = values, .chunks = largest(ranks()).size, .first = own.first, .size = own.size};

  if (auto done = co_await reduce_by_halving(group_, halving, op, about); !done) co_return done.error();
  about.part += 64;  // above the halving's
  if (smaller.size > 0) {
    Combiner combiner(op, values.element, halving.share(place, 1).bytes);
    Receive arrival(group_, smaller.first + place / (own.size / smaller.size), about, combiner);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  const std::uint32_t each = larger.size / own.size;  // ranks() of the larger block for one of this
  const Halving above{.values = values, .chunks = halving.chunks, .first = larger.first, .size = larger.size};
  SendWindow<8> up;
  for (std::uint32_t i = 0; i < each; ++i) {
    if (auto room = co_await up.make_room(i); !room) co_return room.error();
    up.at(i).emplace(group_, larger.first + place * each + i, about, above.share(place * each + i, 1));
  }
  if (auto done = co_await up.finish(); !done) co_return done.error();
  ++about.part;
  for (std::uint32_t i = 0; i < each; ++i) {
    Filler filler(above.share(place * each + i, 1).bytes);
    Receive arrival(group_, larger.first + place * each + i, about, filler);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  if (smaller.size > 0) {
    Send sent(group_, smaller.first + place / (own.size / smaller.size), about, halving.share(place, 1));
    if (auto done = co_await sent; !done) co_return done.error();
  }
  ++about.part;
  co_return co_await gather_by_doubling(group_, halving, about);
}

Cost BinaryBlocks::all_reduce_cost(std::uint32_t ranks, double bytes) {
  const double size = largest(ranks).size;
  const double halved = (size - 1) / size;
  double smallest = 0;  // the share of a rank of the smallest block
  double chained = 0;   // what is combined on the way from it to the largest
  for (Block block = largest(ranks); after(block, ranks).size > 0; block = after(block, ranks)) {
    smallest = 1.0 / after(block, ranks).size;
    chained += 1.0 / block.size;
  }
  return {.alpha = 2.0 * (std::bit_width(ranks) - 1),
          .beta = 2 * (halved + smallest) * bytes,
          .gamma = (halved + chained) * bytes};
}

}  // namespace weir::collectives
