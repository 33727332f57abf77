#include "training/exchange/entry_sum.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weir::training {

void EntrySum::begin(std::span<float> room) {
  room_ = room;
  touched_.resize(std::max(touched_.size(), (room.size() + 63) / 64));
}

void EntrySum::add(const compressors::Selection& entries, float share) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint32_t position = entries.positions[i];
    room_[position] += share * entries.values[i];
    touched_[position / 64] |= std::uint64_t{1} << position % 64;
  }
}

void EntrySum::take(compressors::Selection& out) {
  out.clear();
  for (std::size_t word = 0; word < (room_.size() + 63) / 64; ++word) {
    for (std::uint64_t bits = std::exchange(touched_[word], 0); bits != 0; bits &= bits - 1) {
      const std::size_t position = 64 * word + static_cast<std::size_t>(std::countr_zero(bits));
      out.positions.push_back(static_cast<std::uint32_t>(position));
      out.values.push_back(std::exchange(room_[position], 0.0F));
    }
  }
}

}  // namespace weir::training
