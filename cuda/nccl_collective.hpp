#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/topologies/ring.hpp"
#include "cuda/nccl.hpp"
#include "cuda/nccl_communicator.hpp"

namespace weir::cuda {

/// Nccl by an NcclCommunicator that is connected.
class NcclCollective final : public Nccl {
 public:
  NcclCollective(collectives::Communicator& control, std::unique_ptr<NcclCommunicator> nccl, std::int32_t gpu)
      : control_(control), mesh_(control), nccl_(std::move(nccl)), gpu_(gpu) {}

  collectives::Task<> all_reduce(collectives::Buffer values, collectives::ReduceOp op,
                                 collectives::Subject about) override;

  /// Chunks of unequal length are reduced to each rank on its own, together as many bytes.
  collectives::Task<> reduce_scatter(collectives::Buffer values, collectives::ReduceOp op,
                                     collectives::Subject about) override;

  /// First the lengths over the lane, then the payloads as the longest of them.
  collectives::Task<> all_gather(collectives::ConstBuffer own, collectives::Gathered& gathered,
                                 collectives::Subject about) override;

  /// First the lengths over the lane, then sends and receives of these, all at once.
  collectives::Task<> all_to_all(std::span<const collectives::ConstBuffer> outgoing, collectives::Gathered& incoming,
                                 collectives::Subject about) override;

  /// All ranks are owners.
  std::uint32_t owners() const override { return control_.size(); }
  collectives::Task<> to_owners(std::span<const BytesView> outgoing, collectives::Gathered& incoming,
                                collectives::Subject about) override;
  collectives::Task<> from_owners(BytesView own, collectives::Gathered& gathered, collectives::Subject about) override;

  collectives::Task<> swap(BytesView outgoing, std::uint32_t partner, collectives::Gathered& incoming,
                           collectives::Subject about) override;

  collectives::Task<> broadcast(collectives::Buffer values, std::uint32_t root, collectives::Subject about) override;

  collectives::Task<> close() override { return nccl_->close(); }

 private:
  collectives::Operation operation(std::string_view name, collectives::Subject about) const;
  collectives::Operation operation(std::string_view name, const collectives::Buffer& values, std::uint32_t option,
                                   collectives::Subject about) const;
  Result<void> expect_reachable(const collectives::Device& device) const;
  Result<void> expect_reduction(const collectives::Buffer& values, collectives::ReduceOp op) const;

  /// What NCCL is to do with values that are in the GPU's memory.
  using Change = FunctionRef<NcclStatus(const collectives::Buffer& values, const NcclFunctions& nccl,
                                        ncclComm* communicator, StreamHandle stream)>;
  collectives::Task<> change(collectives::Buffer values, Change call, collectives::Subject about);
  collectives::Task<> reduce_all(collectives::Buffer values, collectives::ReduceOp op, collectives::Subject about);
  collectives::Task<> reduce_chunks(collectives::Buffer values, collectives::ReduceOp op, collectives::Subject about);
  collectives::Task<> copy_from(collectives::Buffer values, std::uint32_t root, collectives::Subject about);
  collectives::Task<> gather(collectives::ConstBuffer own, collectives::Gathered& gathered, collectives::Subject about);
  collectives::Task<> exchange(std::span<const collectives::ConstBuffer> outgoing, collectives::Gathered& incoming,
                               collectives::Subject about);
  collectives::Task<> exchange_with(std::uint32_t partner, BytesView outgoing, collectives::Gathered& incoming,
                                    collectives::Subject about);
  collectives::Task<> exchange_views(std::span<const BytesView> outgoing, collectives::Gathered& incoming,
                                     collectives::Subject about);
  Result<std::vector<std::size_t>> lengths_of(const collectives::Gathered& told, std::size_t bytes_max) const;
  Result<void> put(const collectives::ConstBuffer& from, std::size_t at);
  void count_ring(std::uint64_t sent_bytes, std::uint64_t received_bytes);

  collectives::Communicator& control_;
  collectives::Ring mesh_;  ///< of the lane
  std::unique_ptr<NcclCommunicator> nccl_;
  const std::int32_t gpu_;
};

}  // namespace weir::cuda
