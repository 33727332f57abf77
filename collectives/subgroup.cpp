#include "collectives/subgroup.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"

namespace weir::collectives {

SubGroup::SubGroup(Communicator& whole, std::vector<std::uint32_t> members)
    : whole_(whole), members_(std::move(members)) {
  const auto own = std::ranges::lower_bound(members_, whole.rank());
  ensure(own != members_.end() && *own == whole.rank(), "a rank is in the groups that it makes");
  rank_ = static_cast<std::uint32_t>(own - members_.begin());
}

std::vector<std::uint32_t> SubGroup::in_whole(std::span<const std::uint32_t> members) const {
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t member : members) ranks.push_back(members_[member]);
  return ranks;
}

void SubGroup::begin_part(const Operation& operation, std::span<const std::uint32_t> members) {
  whole_.begin_part(operation, in_whole(members));
}

void SubGroup::end_part(std::span<const std::uint32_t> members) { whole_.end_part(in_whole(members)); }

void SubGroup::abort(const Error& cause, const std::optional<Blame>& blame) {
  std::optional<Blame> in_whole = blame;
  if (in_whole) {
    in_whole->rank = members_[in_whole->rank];
    in_whole->with = members_[in_whole->with];
  }
  whole_.abort(cause, in_whole);
}

void SubGroup::begin(Send& send) {
  send.to = members_[send.to];
  send.group_ = &whole_;
  whole_.begin(send);
}

void SubGroup::begin(Receive& receive) {
  ensure(receive.rank.has_value(), "a part of a group does not receive from any rank");
  receive.rank = members_[*receive.rank];
  receive.group_ = &whole_;
  whole_.begin(receive);
}

void SubGroup::go_on(Send& send) { whole_.go_on(send); }
void SubGroup::go_on(Receive& receive) { whole_.go_on(receive); }
void SubGroup::withdraw(Send& send) { whole_.withdraw(send); }
void SubGroup::withdraw(Receive& receive) { whole_.withdraw(receive); }

}  // namespace weir::collectives
