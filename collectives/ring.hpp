#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/half.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"

namespace weir::collectives {

// Ring algorithms over P ranks: rank r sends to r + 1 and receives from r - 1, so every link carries the same
// load. alpha: latency of a message in seconds; beta: seconds per byte. All ranks must call the same functions in
// the same order, with matching sizes. They fail with the errors of Communicator::exchange; the contents of
// the result are then unspecified.

/// Sums `values` over all ranks, in place. Any P, any length, but the same on every rank. Each element is
/// added up along one path and then copied, so all ranks end with the same bits. Cost: 2 (P-1) alpha + 2
/// (P-1)/P n beta for n bytes; the additions overlap with the transfer.
Result<void> ring_all_reduce(Communicator& group, std::span<float> values);

/// The same in 16 bits: every rank on an element's path adds its share in float32 and rounds the sum to nearest even. A
/// sum beyond the largest finite number becomes that number.
Result<void> ring_all_reduce(Communicator& group, std::span<Half> values);
Result<void> ring_all_reduce(Communicator& group, std::span<BFloat16> values);

/// The largest of each element over all ranks, in place, at the cost of a sum. Where a value is NaN, the result is the
/// value of any rank, the same on all.
Result<void> ring_all_reduce_max(Communicator& group, std::span<float> values);

/// Distributes the payload of every rank to all ranks: `gathered[r]` becomes rank r's, of any length (buffers are
/// reused). A payload longer than `payload_bytes_max` is refused before memory is allocated for it (malformed;
/// invalid_argument if it is this rank's own). Cost: (P-1) alpha + (P-1) k beta for payloads of k bytes.
Result<void> ring_all_gather(Communicator& group, BytesView own, std::size_t payload_bytes_max,
                             std::vector<Bytes>& gathered);

/// Bytes that one rank sends in ring_all_reduce of `count` elements, headers included; ranks differ by a few
/// bytes when P does not divide the count.
std::uint64_t ring_all_reduce_sent_bytes(std::uint32_t rank, std::uint32_t size, std::size_t count,
                                         std::size_t element_bytes = sizeof(float));

}  // namespace weir::collectives
