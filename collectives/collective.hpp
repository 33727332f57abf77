#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "collectives/buffer.hpp"
#include "collectives/communicator.hpp"
#include "collectives/reduce.hpp"

namespace weir::collectives {

/// A payload of any length from each rank, by rank, in the host's memory.
struct Gathered {
  std::vector<Bytes> payloads;              ///< reused from round to round
  std::size_t bytes_max = 0;                ///< a longer payload is refused before memory is allocated for it
  std::vector<std::uint64_t> lengths = {};  ///< of payloads without memory, where the network carries no data
};

/// What an operation takes: `alpha` messages one after the other (each with the latency of a link), `beta` bytes that
/// one port sends or receives one after the other, `gamma` bytes that one rank combines.
struct Cost {
  double alpha = 0;
  double beta = 0;
  double gamma = 0;
};

/// Operations over all ranks of a group, each a task on the loop that runs the group. All ranks carry out the same
/// operations of a lane in the same order, one after the other, with the same `about` and matching sizes. They fail
/// with the errors of Communicator, and with unsupported if they cannot reach the memory that a buffer is in; the
/// contents of buffers are then unspecified.
class Collective {
 public:
  virtual ~Collective() = default;

  /// Combines `values` over all ranks, in place, the same length on each. Each element is combined along one path and
  /// then copied, so that all ranks end with the same bits. Fails also with: unsupported (more ranks than ranks_max()).
  virtual Task<> all_reduce(Buffer values, ReduceOp op, Subject about) = 0;

  /// Combines `values` over all ranks: rank r ends with the result in chunk_of(values, P, r), and anything elsewhere.
  /// Fails as all_reduce.
  virtual Task<> reduce_scatter(Buffer values, ReduceOp op, Subject about) = 0;

  /// Distributes the payload of each rank to all. Fails also with: invalid_argument (the own payload is longer than
  /// gathered.bytes_max), malformed (another's is).
  virtual Task<> all_gather(ConstBuffer own, Gathered& gathered, Subject about) = 0;

  /// Sends `outgoing[r]` to rank r, and receives as `incoming.payloads[r]` what rank r has for this one. Fails as
  /// all_gather.
  virtual Task<> all_to_all(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) = 0;

  /// The number of ranks, the first ones, that own shares of what is exchanged. In an exchange by owners each of them
  /// is sent its share by all ranks and sends all of them what it makes of it.
  virtual std::uint32_t owners() const = 0;

  /// Sends `outgoing[r]`, r < owners(), to rank r; an owner receives as `incoming.payloads[r]` what rank r has for it.
  /// Fails as all_gather.
  virtual Task<> to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) = 0;

  /// Distributes the payload of each owner to all, as `gathered.payloads[owner]`. Fails as all_gather.
  virtual Task<> from_owners(BytesView own, Gathered& gathered, Subject about) = 0;

  /// Ranks in pairs: sends `outgoing` to rank `partner`, whose partner is this one, and receives what that has for it
  /// as `incoming.payloads[partner]`; the other payloads stay as they are. Fails as all_gather.
  virtual Task<> swap(BytesView outgoing, std::uint32_t partner, Gathered& incoming, Subject about) = 0;

  /// Copies rank `root`'s `values`, the same length on each, to all.
  virtual Task<> broadcast(Buffer values, std::uint32_t root, Subject about) = 0;
};

}  // namespace weir::collectives
