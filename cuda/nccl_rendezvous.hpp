#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"
#include "collectives/task.hpp"

namespace weir::cuda {

/// What a rank tells the others about its NCCL.
struct NcclState {
  int version = 0;     ///< 0: it cannot take part
  std::string node;    ///< the name of its host
  std::string reason;  ///< why it cannot take part
  /// Its number in the whole group, of which those who use NCCL may be a part. Everybody knows it, and it is not told.
  std::uint32_t rank = 0;
};

/// Of this host: with that version or, as an error, the reason.
NcclState own_nccl_state(const Result<int>& version);

/// Little endian: u32 version, u8 length of the node's name, the name, the reason; 512 bytes at most.
Bytes encode(const NcclState& state);
/// Fails with: malformed. Text is without anything unprintable.
Result<NcclState> decode_nccl_state(BytesView bytes);

/// Tells all ranks of the lane and returns what each of them tells, by rank. Fails as Communicator.
collectives::Task<std::vector<NcclState>> exchange_nccl_states(collectives::Communicator& control, NcclState own,
                                                               collectives::Subject about);

/// Fails with unsupported if a rank cannot take part or has another version than rank 0: the same sentence on each.
Result<void> expect_one_nccl(const std::vector<NcclState>& of_ranks);

}  // namespace weir::cuda
