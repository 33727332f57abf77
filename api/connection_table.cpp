#include "api/connection_table.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weir::api {

ConnectionTable::Id ConnectionTable::enter(std::weak_ptr<TableMember> member, std::string address) {
  std::weak_ptr<TableMember> goes;
  Id id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (finishing_) {
      goes = std::move(member);
    } else {
      if (!strangers_.empty() && strangers_.size() >= strangers_max_) goes = take_stranger();
      id = next_++;
      strangers_.emplace(id, Entry{std::move(member), std::move(address), id});
    }
  }
  if (const auto dropped = goes.lock()) dropped->drop();
  return id;
}

bool ConnectionTable::admit(Id id) {
  const std::lock_guard lock(mutex_);
  if (clients_.size() >= clients_max_) return false;
  auto entry = strangers_.extract(id);
  if (entry) clients_.insert(std::move(entry));
  return true;  // also if it is being dropped: its answer goes nowhere
}

void ConnectionTable::waits(Id id) {
  const std::lock_guard lock(mutex_);
  const auto found = strangers_.find(id);
  if (found != strangers_.end()) found->second.waits_since = next_++;
}

void ConnectionTable::works(Id id) {
  const std::lock_guard lock(mutex_);
  const auto found = strangers_.find(id);
  if (found != strangers_.end()) found->second.waits_since = working;
}

void ConnectionTable::leave(Id id) {
  const std::lock_guard lock(mutex_);
  if (strangers_.erase(id) == 0) clients_.erase(id);
}

bool ConnectionTable::crowded() const {
  const std::lock_guard lock(mutex_);
  return strangers_.size() * 2 > strangers_max_;
}

bool ConnectionTable::drop_stranger() {
  std::weak_ptr<TableMember> goes;
  {
    const std::lock_guard lock(mutex_);
    if (strangers_.empty()) return false;
    goes = take_stranger();
  }
  if (const auto dropped = goes.lock()) dropped->drop();
  return true;
}

std::weak_ptr<TableMember> ConnectionTable::take_stranger() {
  struct Address {
    std::size_t count = 0;
    std::map<Id, Entry>::iterator longest;  ///< the one that has been waited for longest
  };
  std::map<std::string_view, Address> addresses;
  for (auto entry = strangers_.begin(); entry != strangers_.end(); ++entry) {
    Address& address = addresses[entry->second.address];
    if (address.count++ == 0 || entry->second.waits_since < address.longest->second.waits_since)
      address.longest = entry;
  }
  const auto goes_before = [](const auto& a, const auto& b) {
    if (a.second.count != b.second.count) return a.second.count > b.second.count;
    return a.second.longest->second.waits_since < b.second.longest->second.waits_since;
  };
  const auto chosen = std::min_element(addresses.begin(), addresses.end(), goes_before)->second.longest;
  auto member = std::move(chosen->second.member);
  strangers_.erase(chosen);
  return member;
}

std::vector<std::shared_ptr<TableMember>> ConnectionTable::members() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<TableMember>> members;
  for (const auto* entries : {&strangers_, &clients_})
    for (const auto& [id, entry] : *entries)
      if (auto member = entry.member.lock()) members.push_back(std::move(member));
  return members;
}

void ConnectionTable::end_all_soon() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  for (const auto& member : members()) member->end_soon();
}

void ConnectionTable::drop_all() {
  for (const auto& member : members()) member->drop();
}

}  // namespace weir::api
