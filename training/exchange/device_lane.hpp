#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "collectives/hosts.hpp"
#include "cuda/nccl.hpp"

namespace weir::training {

/// NCCL between the devices of ranks: of all ranks of a group, for the topology of that name, or of those of each host,
/// for what is summed within hosts. A rank has one for all buckets, which pass one after the other in an order that all
/// its ranks have in common: NCCL asks for that of operations of the same communicator, and those of several ones may
/// wait for each other's multiprocessors for ever. The ranks meet on a lane of the group of its own, whose failure is
/// NCCL's.
///
/// Within a host a bucket passes twice, up to the leader and down again, and when a leader has something to send down
/// is not known to the others. So the order is one that nobody needs to be told: of each step the sums of all buckets
/// come first, and then the means of all (BucketSchedule). A sum waits for nothing but gradients and the sums before
/// it, so that nothing that a mean waits for can wait for that mean.
class DeviceLane {
 public:
  /// To be called by all ranks together; blocks until they are connected. `device`: of this rank, a GPU. `fabric` must
  /// outlive it. Fails, on all ranks, with what cuda::join_nccl() fails with: unsupported names the rank without NCCL,
  /// its node and the reason.
  static Result<std::unique_ptr<DeviceLane>> join(collectives::Fabric& fabric, at::Device device,
                                                  cuda::NcclOptions options = {});

  /// What join_hosts() has come to, the same on all ranks.
  struct OfHosts {
    std::unique_ptr<DeviceLane> lane;  ///< null: within hosts they do without
    std::string lacking;               ///< then: the rank that cannot, and why; nothing if no host has several ranks
  };
  /// The same among the ranks of each host, of all hosts or of none. `unable`: a sentence on why this rank cannot take
  /// part, which names it, or nothing; then `device` is a GPU. The group has a lane more than its buckets need. Fails
  /// with what the group fails with.
  static Result<OfHosts> join_hosts(collectives::Fabric& fabric, at::Device device, const std::string& unable,
                                    cuda::NcclOptions options = {});

  /// Leaves in an orderly way, as all ranks do, if the group has not failed. What operations use must still be there.
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  /// Where its messages go.
  std::uint32_t lane() const { return lane_; }

  /// Whether it is between the ranks of each host. Then rank 0 of them is the host's leader.
  bool within_hosts() const { return hosts_.has_value(); }
  /// Whether there is nobody else: on a host of one rank.
  bool alone() const { return nccl_ == nullptr; }

  /// Unless alone(). To be used on the fabric's thread only.
  collectives::Collective& collective() { return *nccl_; }

 private:
  DeviceLane(collectives::Fabric& fabric, std::uint32_t lane) : fabric_(fabric), lane_(lane) {}
  Result<void> join_within(cuda::NcclOptions options);
  Result<void> failure() const;

  collectives::Fabric& fabric_;
  const std::uint32_t lane_;
  std::optional<collectives::Hosts> hosts_;  ///< if it is within them; on the fabric's thread
  std::unique_ptr<cuda::Nccl> nccl_;
};

}  // namespace weir::training
