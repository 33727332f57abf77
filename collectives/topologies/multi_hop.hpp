#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "collectives/topologies/butterfly.hpp"
#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// A step of recursive halving, after which a rank has sums of twice as many ranks for half as many shares. The owners
/// of shares are all ranks, in their order.
struct Hop {
  std::uint32_t partner = 0;  ///< swaps with this rank
  std::uint32_t given = 0;    ///< the first of the owners whose shares this rank gives away
  std::uint32_t kept = 0;     ///< the first of those whose shares it keeps, and receives from its partner
  std::uint32_t owners = 0;   ///< how many owners each of both are

  bool gives(std::uint32_t owner) const { return owner - given < owners; }
  bool keeps(std::uint32_t owner) const { return owner - kept < owners; }
};

/// Recursive halving and doubling of payloads that cannot be added up: in each of log2(P) hops a rank gives its partner
/// a half of the shares that it has, encoded, and adds what it receives to those that it keeps. What it encodes is a
/// sum from the second hop on. After the last hop it owns one share with the sum of all ranks, which it encodes once
/// more; these payloads are forwarded to all as they are. A rank sends about twice its payload, however many ranks
/// there are, as two_hop, but to few others instead of P - 1 (multi-hop all-reduce, as in DynamiQ, 2026).
///
/// This class carries the messages; what is encoded and added up is training::HopsRound's.
class MultiHop final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "multi_hop";
  static constexpr std::string_view summary =
      "recursive halving and doubling of what is compressed again at every hop; for compressors that send every entry, "
      "and 2, 4, 8, ... workers";
  static constexpr GroupSize group_size = GroupSize::power_of_two;
  static constexpr Gathers gathers = Gathers::partners;

  /// As a butterfly.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes) { return Butterfly::all_reduce_cost(ranks, bytes); }

  /// 2 log2(P) steps with a half, a quarter, ... of the bytes; on the way back each owner's payload is a message.
  static Cost by_owners_cost(std::uint32_t ranks, double bytes);

  /// log2(P), of a number of ranks that is a power of two.
  static std::uint32_t hop_count(std::uint32_t ranks) { return static_cast<std::uint32_t>(std::bit_width(ranks)) - 1; }
  /// Hop `number`, from 0, of `rank`. The partner's hop is the same with both halves exchanged.
  static Hop hop(std::uint32_t rank, std::uint32_t ranks, std::uint32_t number);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;

  /// By doubling, as all_gather().
  Task<> from_owners(BytesView own, Gathered& gathered, Subject about) override;
};

}  // namespace weir::collectives
