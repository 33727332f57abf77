#pragma once

#include <cstdint>
#include <map>
#include <span>
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
  std::uint16_t number = 0;  ///< counted from 1 among those of the lane that both ranks take part in; 0: of none
  std::uint32_t mark = 0;    ///< a hash of the operation

  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

/// The operations of a lane on one rank: those of all ranks, and those of a part of them (SubGroup), none of which is
/// under way at the same time as another with a rank of both. It tells what the tags of others mean for the present
/// one: all ranks carry out the same operations in the same order, but one may be ahead of another.
class OperationLog {
 public:
  void begin(const Operation& operation);
  void end() { of_all_.under_way = false; }
  /// Of this rank and `members`, which may name it.
  void begin_part(const Operation& operation, std::span<const std::uint32_t> members);
  void end_part(std::span<const std::uint32_t> members);

  /// Of what is sent to rank `other` now.
  OperationTag tag(std::uint32_t other) const;
  /// Of the operation with `other` that is under way, or else the last one.
  OperationTag last(std::uint32_t other) const;
  const Subject& about(std::uint32_t other) const { return latest(other).operation.about; }

  /// Refuses a message of `other` of another operation where one of this is due. Fails with: malformed.
  Result<void> expect(std::uint32_t other, const OperationTag& of_message) const;

  /// Refuses what `other` is at, `waited_for`: whether this rank waits for a message of it, of which none is on its
  /// way. Fails with: malformed (the other carries out something else, or has gone on to what comes after this).
  Result<void> compare(std::uint32_t other, const OperationTag& its_last, bool waited_for) const;

  /// Refuses a message of `other` for which nobody waits yet. Fails with: malformed (it is of another operation in the
  /// place of this, or of one that is over).
  Result<void> expect_later(std::uint32_t other, const OperationTag& of_message) const;

 private:
  struct Entry {
    Operation operation;
    std::uint32_t mark = 0;
    std::uint64_t begun = 0;  ///< its place among all that have begun; 0: it never has
    bool under_way = false;
  };
  /// With one other rank.
  struct Part {
    Entry entry;
    std::uint64_t count = 0;
  };

  Entry entry_of(const Operation& operation);
  const Entry& latest(std::uint32_t other) const;
  Error another(std::uint32_t other) const;

  Entry of_all_;
  std::uint64_t count_ = 0;  ///< of those of all
  std::uint64_t begun_ = 0;
  std::map<std::uint32_t, Part> parts_;  ///< by rank
};

}  // namespace weir::collectives
