#pragma once

#include <memory>
#include <string_view>

#include "collectives/collective.hpp"

namespace weir::collectives {

/// A collective whose operations are those of its lane (carry_out()): ranks that carry out different ones, by other
/// topologies, of other lengths or about other buckets, find out, and an operation that fails on one rank fails on all.
class CheckedCollective final : public Collective {
 public:
  /// `group` must outlive it. `name` and `options` say which topology it is.
  CheckedCollective(Communicator& group, std::string_view name, std::uint32_t options,
                    std::unique_ptr<Collective> collective)
      : group_(group), name_(name), options_(options), collective_(std::move(collective)) {}

  Task<> all_reduce(Buffer values, ReduceOp op, Subject about) override;
  Task<> reduce_scatter(Buffer values, ReduceOp op, Subject about) override;
  Task<> all_gather(ConstBuffer own, Gathered& gathered, Subject about) override;
  Task<> all_to_all(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) override;
  std::uint32_t owners() const override { return collective_->owners(); }
  Task<> to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) override;
  Task<> from_owners(BytesView own, Gathered& gathered, Subject about) override;
  Task<> swap(BytesView outgoing, std::uint32_t partner, Gathered& incoming, Subject about) override;
  Task<> broadcast(Buffer values, std::uint32_t root, Subject about) override;

 private:
  Operation operation(std::string_view operation, const Subject& about) const;
  Operation operation(std::string_view operation, const Buffer& values, std::uint32_t option,
                      const Subject& about) const;

  Communicator& group_;
  const std::string_view name_;
  const std::uint32_t options_;
  const std::unique_ptr<Collective> collective_;
};

}  // namespace weir::collectives
