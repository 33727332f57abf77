#pragma once

#include <cstdint>
#include <string>

namespace weir::collectives {

/// What a message is about. It travels with the message and is compared with what the receiver expects, so that ranks
/// that disagree about what comes next find out before anything is mixed up.
struct Subject {
  std::uint64_t version = 0;  ///< the optimizer step, or the version of what is sent
  std::uint32_t bucket = 0;
  std::uint32_t part = 0;  ///< the message's place within its collective

  friend bool operator==(const Subject&, const Subject&) = default;
};

/// "bucket 3 of version 17, part 2"
std::string to_string(const Subject& subject);

}  // namespace weir::collectives
