#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "cuda/nccl.hpp"

namespace weir::training {

/// NCCL between the devices of the ranks of a group, for the topology of that name. There is one for all buckets, which
/// pass one after the other in an order that all ranks have in common: NCCL asks for that of operations of the same
/// communicator, and those of several ones may wait for each other's multiprocessors for ever. The ranks meet on a lane
/// of the group of its own, whose failure is NCCL's.
class DeviceLane {
 public:
  /// To be called by all ranks together; blocks until they are connected. `device`: of this rank, a GPU. `fabric` must
  /// outlive it. Fails, on all ranks, with what cuda::join_nccl() fails with: unsupported names the rank without NCCL,
  /// its node and the reason.
  static Result<std::unique_ptr<DeviceLane>> join(collectives::Fabric& fabric, at::Device device,
                                                  cuda::NcclOptions options = {});
  /// Leaves in an orderly way, as all ranks do, if the group has not failed. What operations use must still be there.
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  /// Where its messages go.
  std::uint32_t lane() const { return lane_; }

  /// To be used on the fabric's thread only.
  collectives::Collective& collective() { return *nccl_; }

 private:
  DeviceLane(collectives::Fabric& fabric, std::uint32_t lane) : fabric_(fabric), lane_(lane) {}

  collectives::Fabric& fabric_;
  const std::uint32_t lane_;
  std::unique_ptr<cuda::Nccl> nccl_;
};

}  // namespace weir::training
