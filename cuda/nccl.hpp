#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "collectives/collective.hpp"
#include "collectives/communicator.hpp"
#include "collectives/task.hpp"

namespace weir::cuda {

struct NcclOptions {
  std::string library = "libnccl.so.2";
  std::int32_t gpu = 0;                                 ///< of this rank, its number in this process
  std::chrono::milliseconds connect_within{60'000};     ///< until all ranks' NCCL has found each other
  std::chrono::milliseconds operation_within{300'000};  ///< from when all ranks and their values are there
};

/// Operations between GPUs by NVIDIA's NCCL, one GPU for each rank. To be used and destroyed on the thread of the loop
/// that runs the lane it was made for, which must outlive it.
///
/// Numbers (all_reduce, reduce_scatter, broadcast) and payloads may be in the memory of this rank's GPU, or in the
/// host's: unsupported if they are elsewhere. An operation begins after what has been put into their stream before, and
/// what is put there afterwards sees its result; when it ends, the GPU has done it. What is in the host's memory goes
/// to the GPU and comes back through pinned memory; gathered payloads always arrive in the host's. What ranks send each
/// other counts as traffic of the lane: as little as a ring of them would have to, because NCCL does not tell.
///
/// As NCCL has it: 16-bit sums become infinite instead of saturating; a mean in 32 bits is a sum of shares; which value
/// stays where one is NaN is unspecified, but the same on all ranks. A majority is unsupported.
///
/// The ranks meet on the lane before each operation: those that do not agree about it find out, and nobody's GPU spins
/// while another rank is not there yet. The lane's failure ends the operation that is under way, and a failure of NCCL
/// is one of the lane: peer_lost naming the rank, io (another process or the network), internal, deadline_exceeded. An
/// operation that fails ends as soon as NCCL has let go of the buffers, or after a second. One that is destroyed before
/// its end fails the lane; the memory that it uses must then stay until this object is gone.
class Nccl : public collectives::Collective {
 public:
  /// Leaves in an orderly way, as all ranks do: no operation is under way. Afterwards this may only be destroyed.
  /// Without it, destroying this aborts what NCCL does, and may wait a second for it.
  virtual collectives::Task<> close() = 0;
};

/// Has all ranks of `control`, a lane that nothing else uses meanwhile, open NCCL and connect. All of them succeed, or
/// all fail, and can go on without: unsupported (a rank has no NCCL or no GPU, or another version; names the rank, its
/// node and both versions), io or internal (NCCL could not connect), deadline_exceeded. The lane's own failures are
/// those of Communicator.
collectives::Task<std::unique_ptr<Nccl>> join_nccl(collectives::Communicator& control, NcclOptions options);

}  // namespace weir::cuda
