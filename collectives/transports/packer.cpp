#include "collectives/transports/packer.hpp"

#include <algorithm>

namespace weir::collectives {
namespace {

using Seconds = std::chrono::duration<double>;

/// So many bytes of numbers between two looks at the line.
constexpr std::uint64_t look_bytes = 4 * 1024 * 1024;
/// After so many looks numbers that came to nothing get another chance: gradients change.
constexpr std::uint32_t looks_until_retry = 16;
constexpr double newest_weight = 0.25;

}  // namespace

void Packer::Effort::note(double seconds, std::size_t bytes) {
  const double now = seconds / static_cast<double>(bytes);
  seconds_per_byte = measured ? std::min(seconds_per_byte, now) : now;
  measured = true;
}

bool Packer::is_worthwhile(const Stream& stream, Element element, std::size_t bytes) {
  if (!packs(element) || bytes == 0) return false;
  since_look_ += bytes;
  if (since_look_ >= look_bytes) {
    since_look_ = 0;
    if (const auto use = stream.line_use()) look_at(*use);
  }
  return packs_;
}

std::size_t Packer::pack(Element element, BytesView piece, std::span<std::byte> out) {
  const auto begin = now_();
  const std::size_t packed = collectives::pack(element, piece, out);
  packing_.note(Seconds(now_() - begin).count(), piece.size());
  share_ += newest_weight * (static_cast<double>(packed) / static_cast<double>(piece.size()) - share_);
  return packed < piece.size() ? packed : 0;
}

void Packer::look_at(const LineUse& use) {
  const auto carried = static_cast<double>(use.bytes - before_.bytes);
  const double busy = Seconds(use.busy - before_.busy).count();
  before_ = use;
  if (carried == 0) return;
  if (++looks_ % looks_until_retry == 0) share_ = std::min(share_, usual);
  const PackingCosts costs{.pack_seconds_per_byte = packing_.seconds_per_byte,
                           .unpack_seconds_per_byte = unpacking_.seconds_per_byte};
  packs_ = costs.are_worth(share_, busy / carried);
}

Result<void> Packer::unpack(BytesView packed, std::span<std::byte> numbers) {
  const auto begin = now_();
  auto unpacked = collectives::unpack(packed, numbers);
  if (unpacked) unpacking_.note(Seconds(now_() - begin).count(), numbers.size());
  return unpacked;
}

}  // namespace weir::collectives
