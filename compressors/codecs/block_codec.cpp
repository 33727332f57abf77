#include <algorithm>
#include <bit>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/fields.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/kernels/pack.hpp"

// Positions as offsets of a fixed width within blocks, and the number of positions in each block: 12 bits in blocks of
// 4096 entries or 16 bits in blocks of 65536, whichever is shorter. Any part can be read without reading the parts
// before it, which suits processors with many threads. If all blocks send equally many entries, as in SparseLoCo, only
// the offsets remain.
//
// Layout, if there are any positions:
//
//     u8      bits of an offset, 12 or 16
//     varint  the least count of a block
//     u8      bits of a count, b
//     ...     the count of each block less the least, b bits each (codecs/fields.hpp)
//     ...     offsets, block after block

namespace weir::compressors {
namespace {

struct Plan {
  unsigned offset_bits = 12;
  std::uint64_t least = 0;
  unsigned count_bits = 0;
  std::uint64_t blocks = 0;
  std::size_t positions = 0;

  std::size_t head_bytes() const { return 2 + varint_bytes(least); }
  std::size_t count_bytes() const { return packed_bytes(blocks, count_bits); }
  std::size_t bytes() const { return head_bytes() + count_bytes() + packed_bytes(positions, offset_bits); }
  bool operator==(const Plan&) const = default;
};

std::uint64_t blocks_of(std::uint64_t entries, unsigned offset_bits) {
  return (entries + (std::uint64_t{1} << offset_bits) - 1) >> offset_bits;
}

/// Summary of the counts of the blocks that have any positions.
struct Counts {
  std::uint64_t blocks = 0;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;

  void add(std::uint64_t count) {
    ++blocks;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  Plan plan(std::size_t positions, std::uint64_t entries, unsigned offset_bits) const {
    Plan plan{.offset_bits = offset_bits, .blocks = blocks_of(entries, offset_bits), .positions = positions};
    if (blocks == plan.blocks) plan.least = least;
    plan.count_bits = static_cast<unsigned>(std::bit_width(most - plan.least));
    return plan;
  }
};

Plan plan_of(std::span<const std::uint32_t> positions, std::uint64_t entries) {
  Counts small;
  Counts large;
  std::size_t small_start = 0;
  std::size_t large_start = 0;
  for (std::size_t i = 1; i <= positions.size(); ++i) {
    if (i < positions.size() && positions[i] >> 12 == positions[i - 1] >> 12) continue;
    small.add(i - small_start);
    small_start = i;
    if (i < positions.size() && positions[i] >> 16 == positions[i - 1] >> 16) continue;
    large.add(i - large_start);
    large_start = i;
  }
  const Plan by_small = small.plan(positions.size(), entries, 12);
  const Plan by_large = large.plan(positions.size(), entries, 16);
  return by_large.bytes() < by_small.bytes() ? by_large : by_small;
}

std::size_t block_bytes(std::span<const std::uint32_t> positions, std::uint64_t entries) {
  return positions.empty() ? 0 : plan_of(positions, entries).bytes();
}

void block_encode(std::span<const std::uint32_t> positions, std::uint64_t entries, std::span<std::byte> out) {
  if (positions.empty()) return;
  const Plan plan = plan_of(positions, entries);
  ensure(out.size() == plan.bytes(), "room for positions in blocks");
  std::byte* to = out.data();
  *to++ = static_cast<std::byte>(plan.offset_bits);
  to = store_varint(to, plan.least);
  *to++ = static_cast<std::byte>(plan.count_bits);
  FieldWriter counts(to, plan.count_bits);
  std::size_t start = 0;
  for (std::uint64_t block = 0; block < plan.blocks; ++block) {
    std::size_t end = start;
    while (end < positions.size() && positions[end] >> plan.offset_bits == block) ++end;
    counts.add(static_cast<std::uint32_t>(end - start - plan.least));
    start = end;
  }
  counts.finish();
  FieldWriter offsets(to + plan.count_bytes(), plan.offset_bits);
  for (const std::uint32_t position : positions) offsets.add(position);
  offsets.finish();
}

Error malformed(const char* what) { return Error(Errc::malformed, what); }

Result<void> block_decode(BytesView in, std::uint64_t entries, std::span<std::uint32_t> positions) {
  if (positions.empty()) return in.empty() ? Result<void>() : malformed("bytes where nothing is sent");
  if (in.empty()) return malformed("positions in blocks are cut off");
  const std::size_t size = in.size();
  Plan plan{.offset_bits = std::to_integer<unsigned>(in[0]), .positions = positions.size()};
  if (plan.offset_bits != 12 && plan.offset_bits != 16) return malformed("offsets of another width than 12 or 16");
  plan.blocks = blocks_of(entries, plan.offset_bits);
  in = in.subspan(1);
  const auto least = read_varint(in);
  if (!least || in.empty()) return malformed("positions in blocks are cut off");
  plan.least = *least;
  plan.count_bits = std::to_integer<unsigned>(in[0]);
  in = in.subspan(1);
  if (plan.count_bits > plan.offset_bits + 1) return malformed("counts wider than a block");
  if (size != plan.bytes()) return malformed("positions in blocks of the wrong length");

  const Fields counts(in.first(plan.count_bytes()), plan.count_bits);
  const Fields offsets(in.subspan(plan.count_bytes()), plan.offset_bits);
  std::size_t found = 0;
  for (std::uint64_t block = 0; block < plan.blocks; ++block) {
    const std::uint64_t count = plan.least + counts[block];
    if (count > positions.size() - found) return malformed("more positions than announced");
    std::uint64_t least_position = block << plan.offset_bits;
    for (const std::size_t end = found + count; found < end; ++found) {
      const std::uint64_t position = (block << plan.offset_bits) + offsets[found];
      if (position < least_position || position >= entries) {
        return malformed("positions do not ascend within the tensor");
      }
      positions[found] = static_cast<std::uint32_t>(position);
      least_position = position + 1;
    }
  }
  if (found != positions.size()) return malformed("fewer positions than announced");
  if (plan != plan_of(positions, entries)) return malformed("positions in blocks that have a shorter form");
  if (!padding_is_zero(in.first(plan.count_bytes()), plan.blocks, plan.count_bits) ||
      !padding_is_zero(in.subspan(plan.count_bytes()), found, plan.offset_bits)) {
    return malformed("bits behind the last position");
  }
  return {};
}

}  // namespace

constexpr IndexCodec block_codec{"block", 5, 12, block_bytes, block_encode, block_decode};

}  // namespace weir::compressors
