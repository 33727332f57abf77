#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "collectives/subject.hpp"

namespace weir::collectives {

/// An operation of a lane, as far as all ranks must agree on it.
struct Operation {
  std::string_view name;      ///< "all_reduce"
  std::string_view over;      ///< the topology
  std::uint64_t options = 0;  ///< of both: servers, a root, ...
  std::uint64_t bytes = 0;    ///< of what is as long on all ranks
  Subject about;
};

/// "all_reduce of 400 bytes over ring about bucket 3 of version 17, part 0"
std::string to_string(const Operation& operation);

/// Which operation a message belongs to. It travels with the message.
struct OperationTag {
  std::uint16_t number = 0;  ///< of the lane, counted from 1; 0 for what belongs to none
  std::uint32_t mark = 0;    ///< a hash of the operation

  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

/// The operations of a lane on one rank. It tells what the tags of others mean for the present one: all ranks carry out
/// the same operations in the same order, but one may be ahead of another.
class OperationLog {
 public:
  void begin(const Operation& operation);
  void end() { under_way_ = false; }

  /// Of what is sent now.
  OperationTag tag() const { return under_way_ ? last_ : OperationTag(); }
  /// Of the operation that is under way, or else the last one.
  const OperationTag& last() const { return last_; }
  const Subject& about() const { return operation_.about; }

  /// Refuses a message of another operation where one of this is due. Fails with: malformed.
  Result<void> expect(const OperationTag& of_message) const;

  /// Refuses what another rank is at, `waited_for`: whether this rank waits for a message of it, of which none is on
  /// its way. Fails with: malformed (the other carries out something else, or has gone on to what comes after this).
  Result<void> compare(const OperationTag& other, bool waited_for) const;

  /// Refuses a message for which nobody waits yet. Fails with: malformed (it is of another operation in the place of
  /// this, or of one that is over).
  Result<void> expect_later(const OperationTag& of_message) const;

 private:
  Error another() const;

  Operation operation_;
  OperationTag last_;
  bool under_way_ = false;
};

}  // namespace weir::collectives
