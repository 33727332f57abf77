#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"

namespace weir::collectives {

/// Some ranks of a group as a group of their own, over the same links: rank i of it is rank members[i] of the whole
/// group. Errors and traffic name the ranks of the whole group, and what fails there fails here. It cannot receive from
/// any rank, because messages of others arrive on the same links.
class SubGroup final : public Communicator {
 public:
  /// `whole` must outlive it, and its own rank must be among the members, which are in ascending order.
  SubGroup(Communicator& whole, std::vector<std::uint32_t> members);

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(members_.size()); }
  Loop& loop() override { return whole_.loop(); }
  std::uint32_t host_of(std::uint32_t rank) const override { return whole_.host_of(members_[rank]); }
  std::uint32_t number_in_whole(std::uint32_t rank) const override { return whole_.number_in_whole(members_[rank]); }
  const std::byte* reserved_addresses() const override { return whole_.reserved_addresses(); }

  void begin_operation(const Operation& operation) override { whole_.begin_part(operation, members_); }
  void end_operation() override { whole_.end_part(members_); }
  void begin_part(const Operation& operation, std::span<const std::uint32_t> members) override;
  void end_part(std::span<const std::uint32_t> members) override;
  void abort(const Error& cause, const std::optional<Blame>& blame) override;
  /// Whoever owns the whole group is told.
  void when_failed(std::function<void(const Error& cause, const Blame& blame)> /*call*/) override {}
  const Error* failure() const override { return whole_.failure(); }
  Task<> close() override { return whole_.close(); }
  void count(std::uint32_t rank, const Traffic& carried) override { whole_.count(members_[rank], carried); }
  Traffic traffic_with(std::uint32_t rank) const override { return whole_.traffic_with(members_[rank]); }
  std::optional<std::uint32_t> lost_rank() const override { return whole_.lost_rank(); }
  bool ended_by_another() const override { return whole_.ended_by_another(); }

 private:
  std::vector<std::uint32_t> in_whole(std::span<const std::uint32_t> members) const;

  // From begin() on, a message is one of the whole group.
  void begin(Send& send) override;
  void begin(Receive& receive) override;
  void go_on(Send& send) override;
  void go_on(Receive& receive) override;
  void withdraw(Send& send) override;
  void withdraw(Receive& receive) override;

  Communicator& whole_;
  const std::vector<std::uint32_t> members_;
  std::uint32_t rank_ = 0;
};

}  // namespace weir::collectives
