#include "runtime/call_table.hpp"

#include <algorithm>
#include <string>

namespace weir::runtime {

void CallKey::cancel() const {
  if (auto waiting = table->take(call)) waiting->fail({Errc::cancelled, "the caller gave up"});
}

Result<std::uint64_t> CallTable::add(Clock::duration limit, std::unique_ptr<PendingReply>& waiting) {
  const auto deadline = clock_.now() + limit;
  std::scoped_lock lock(mutex_);
  if (closed_) return *closed_;
  if (size_ >= calls_max) return Error{Errc::exhausted, std::to_string(calls_max) + " calls wait already"};
  if (free_ == none) {
    slots_.emplace_back();
    free_ = static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t index = free_;
  Slot& slot = slots_[index];
  free_ = slot.after;
  ++size_;

  Expiry& expiry = expiry_of(limit);
  slot.waiting = std::move(waiting);
  slot.expiry = &expiry;
  slot.deadline = deadline;
  slot.before = expiry.last;
  slot.after = none;
  (expiry.last == none ? expiry.first : slots_[expiry.last].after) = index;
  expiry.last = index;
  if (deadline < armed_for_) arm(deadline);
  return (static_cast<std::uint64_t>(slot.generation) << 32) | index;
}

CallTable::Expiry& CallTable::expiry_of(Clock::duration limit) {
  auto found = expiries_.find(limit);
  if (found != expiries_.end()) return found->second;
  if (expiries_.size() >= idle_lists_max) std::erase_if(expiries_, [](auto& e) { return e.second.first == none; });
  return expiries_[limit];
}

std::unique_ptr<PendingReply> CallTable::take(std::uint64_t call) {
  const auto index = static_cast<std::uint32_t>(call);
  std::scoped_lock lock(mutex_);
  if (index >= slots_.size() || slots_[index].generation != static_cast<std::uint32_t>(call >> 32)) return nullptr;
  return slots_[index].waiting ? remove(index) : nullptr;
}

std::unique_ptr<PendingReply> CallTable::remove(std::uint32_t index) {
  Slot& slot = slots_[index];
  (slot.before == none ? slot.expiry->first : slots_[slot.before].after) = slot.after;
  (slot.after == none ? slot.expiry->last : slots_[slot.after].before) = slot.before;
  ++slot.generation;
  slot.after = free_;
  free_ = index;
  --size_;
  return std::move(slot.waiting);
}

void CallTable::arm(Clock::time_point when) {
  armed_for_ = when;
  timer_ = clock_.set_timer(executor_, when, [weak = weak_from_this()] {
    if (auto alive = weak.lock()) alive->expire();
  });
}

void CallTable::expire() {
  std::vector<std::unique_ptr<PendingReply>> late;
  {
    std::scoped_lock lock(mutex_);
    const auto now = clock_.now();
    auto next = Clock::time_point::max();
    for (auto& [limit, expiry] : expiries_) {
      while (expiry.first != none && slots_[expiry.first].deadline <= now) late.push_back(remove(expiry.first));
      if (expiry.first != none) next = std::min(next, slots_[expiry.first].deadline);
    }
    armed_for_ = Clock::time_point::max();
    if (next != armed_for_) arm(next);
  }
  for (auto& waiting : late) waiting->fail({Errc::deadline_exceeded, "no answer within the call's limit"});
}

void CallTable::close(const Error& why) {
  std::vector<std::unique_ptr<PendingReply>> left;
  {
    std::scoped_lock lock(mutex_);
    if (closed_) return;
    closed_ = why;
    for (auto& [limit, expiry] : expiries_) {
      while (expiry.first != none) left.push_back(remove(expiry.first));
    }
    timer_.reset();
  }
  for (auto& waiting : left) waiting->fail(why);
}

}  // namespace weir::runtime
