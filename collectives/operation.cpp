#include "collectives/operation.hpp"

#include <array>

#include "base/errc.hpp"
#include "base/xxh3.hpp"

namespace weir::collectives {
namespace {

/// By how many operations `other` is ahead of `own`; the numbers begin again after the largest.
int ahead(const OperationTag& other, const OperationTag& own) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(other.number - own.number));
}

std::uint32_t mark_of(const Operation& operation) {
  const std::array numbers{operation.options, operation.bytes, operation.about.version,
                           std::uint64_t{operation.about.bucket} << 32 | operation.about.part};
  std::uint64_t hash = XXH3_64bits(operation.name.data(), operation.name.size());
  hash = XXH3_64bits_withSeed(operation.over.data(), operation.over.size(), hash);
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(numbers.data(), sizeof numbers, hash));
}

}  // namespace

std::string to_string(const Operation& operation) {
  const std::string bytes = operation.bytes == 0 ? "" : " of " + std::to_string(operation.bytes) + " bytes";
  return std::string(operation.name) + bytes + " over " + std::string(operation.over) + " about " +
         to_string(operation.about);
}

OperationLog::Entry OperationLog::entry_of(const Operation& operation) {
  return {.operation = operation, .mark = mark_of(operation), .begun = ++begun_, .under_way = true};
}

void OperationLog::begin(const Operation& operation) {
  of_all_ = entry_of(operation);
  ++count_;
}

void OperationLog::begin_part(const Operation& operation, std::span<const std::uint32_t> members) {
  const Entry entry = entry_of(operation);
  for (const std::uint32_t other : members) {
    Part& part = parts_[other];
    part.entry = entry;
    ++part.count;
  }
}

void OperationLog::end_part(std::span<const std::uint32_t> members) {
  for (const std::uint32_t other : members) parts_[other].entry.under_way = false;
}

const OperationLog::Entry& OperationLog::latest(std::uint32_t other) const {
  const auto part = parts_.find(other);
  return part == parts_.end() || part->second.entry.begun < of_all_.begun ? of_all_ : part->second.entry;
}

OperationTag OperationLog::tag(std::uint32_t other) const {
  return latest(other).under_way ? last(other) : OperationTag();
}

OperationTag OperationLog::last(std::uint32_t other) const {
  const Entry& entry = latest(other);
  if (entry.begun == 0) return {};
  const auto part = parts_.find(other);
  const std::uint64_t count = count_ + (part == parts_.end() ? 0 : part->second.count);
  constexpr std::uint64_t numbers = 0xffff;  // 0 is for none
  return {.number = static_cast<std::uint16_t>(1 + (count - 1) % numbers), .mark = entry.mark};
}

Error OperationLog::another(std::uint32_t other) const {
  return {Errc::malformed, "carries out something else than " + to_string(latest(other).operation)};
}

Result<void> OperationLog::expect(std::uint32_t other, const OperationTag& of_message) const {
  const bool of_none = of_message.number == 0 || !latest(other).under_way;
  if (of_none || of_message == last(other)) return {};
  return another(other);
}

Result<void> OperationLog::compare(std::uint32_t other, const OperationTag& its_last, bool waited_for) const {
  const OperationTag own = last(other);
  if (its_last.number == 0 || own.number == 0) return {};
  const bool in_place_of_this = its_last.number == own.number && its_last.mark != own.mark;
  if (in_place_of_this || (waited_for && ahead(its_last, own) > 0)) return another(other);
  return {};
}

Result<void> OperationLog::expect_later(std::uint32_t other, const OperationTag& of_message) const {
  const OperationTag own = last(other);
  if (of_message.number == 0 || own.number == 0) return {};
  const bool in_place_of_this = of_message.number == own.number && of_message.mark != own.mark;
  if (in_place_of_this || ahead(of_message, own) < 0) return another(other);
  return {};
}

}  // namespace weir::collectives
