#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "protocol/checkpoint_part.hpp"

namespace weir::protocol::testing {

/// What a rank gets of a whole checkpoint; of none, nothing.
inline Segment part_of(const Segment& whole, std::uint32_t rank, Role role = Role::worker) {
  if (whole.empty()) return {};
  const auto header = read_safetensors_header(whole.bytes(), whole.size()).value();
  const auto part = CheckpointPart::make(header, rank, role).value();
  auto bytes =
      part.read(0, std::numeric_limits<std::uint64_t>::max(), [&](std::uint64_t offset, std::span<std::byte> into) {
        std::ranges::copy(whole.bytes().subspan(offset, into.size()), into.begin());
        return Result<void>();
      });
  return Segment::own(std::move(*bytes));
}

}  // namespace weir::protocol::testing
