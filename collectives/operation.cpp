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

void OperationLog::begin(const Operation& operation) {
  operation_ = operation;
  last_.mark = mark_of(operation);
  if (++last_.number == 0) last_.number = 1;
  under_way_ = true;
}

Error OperationLog::another() const {
  return {Errc::malformed, "carries out something else than " + to_string(operation_)};
}

Result<void> OperationLog::expect(const OperationTag& of_message) const {
  const bool of_none = of_message.number == 0 || !under_way_;
  if (of_none || of_message == last_) return {};
  return another();
}

Result<void> OperationLog::compare(const OperationTag& other, bool waited_for) const {
  if (other.number == 0 || last_.number == 0) return {};
  const bool in_place_of_this = other.number == last_.number && other.mark != last_.mark;
  if (in_place_of_this || (waited_for && ahead(other, last_) > 0)) return another();
  return {};
}

Result<void> OperationLog::expect_later(const OperationTag& of_message) const {
  if (of_message.number == 0 || last_.number == 0) return {};
  const bool in_place_of_this = of_message.number == last_.number && of_message.mark != last_.mark;
  if (in_place_of_this || ahead(of_message, last_) < 0) return another();
  return {};
}

}  // namespace weir::collectives
