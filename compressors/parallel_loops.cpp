#include "compressors/parallel_loops.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "base/ensure.hpp"

namespace weir::compressors {
namespace {

/// What was selected from the range that starts at `begin`.
struct Part {
  std::size_t begin = 0;
  Selection chosen;
};

}  // namespace

void parallel_for_ranges(std::size_t entries, std::size_t align, FunctionRef<void(std::size_t, std::size_t)> body) {
  constexpr std::size_t grain = 1 << 16;  // entries: some tens of microseconds
  const std::size_t unit = (grain + align - 1) / align * align;
  const auto units = static_cast<std::int64_t>((entries + unit - 1) / unit);
  // The barrier at the end of the loop is libgomp's, where ThreadSanitizer does not see it; it sees this.
  std::atomic<std::int64_t> done = 0;
  at::parallel_for(0, units, 1, [&](std::int64_t first, std::int64_t last) {
    body(static_cast<std::size_t>(first) * unit, std::min(entries, static_cast<std::size_t>(last) * unit));
    done.fetch_add(last - first, std::memory_order_release);
  });
  ensure(done.load(std::memory_order_acquire) == units, "every range has been done");
}

void parallel_for_part_ranges(std::size_t count, std::size_t entries,
                              FunctionRef<void(std::size_t, std::size_t)> body) {
  const std::size_t weight = std::max<std::size_t>(entries, 1);
  parallel_for_ranges(count * weight, weight,
                      [&](std::size_t begin, std::size_t end) { body(begin / weight, end / weight); });
}

bool parallel_select(std::size_t entries, std::size_t align, Selection& out,
                     FunctionRef<bool(std::size_t, std::size_t, Selection&)> choose) {
  // Kept between calls to reuse their memory: the selections of ranges, of which the first `taken` are of this call.
  thread_local std::deque<Part> kept;
  std::deque<Part>& parts = kept;  // of this thread, also where another one takes from it
  std::size_t taken = 0;
  std::mutex mutex;
  bool good = true;
  out.clear();
  parallel_for_ranges(entries, align, [&](std::size_t begin, std::size_t end) {
    if (begin == 0 && end == entries) {
      good = choose(begin, end, out);
      return;
    }
    Part* part = nullptr;
    {
      const std::scoped_lock lock(mutex);
      if (taken == parts.size()) parts.emplace_back();
      part = &parts[taken++];
    }
    part->begin = begin;
    part->chosen.clear();
    const bool chosen = choose(begin, end, part->chosen);
    const std::scoped_lock lock(mutex);
    good = good && chosen;
  });
  const auto last = parts.begin() + static_cast<std::ptrdiff_t>(taken);
  std::sort(parts.begin(), last, [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::for_each(parts.begin(), last, [&](const Part& part) {
    out.positions.insert(out.positions.end(), part.chosen.positions.begin(), part.chosen.positions.end());
    out.values.insert(out.values.end(), part.chosen.values.begin(), part.chosen.values.end());
  });
  return good;
}

bool parallel_collect(std::span<const float> values, Peaks peaks, std::uint32_t least, std::size_t limit,
                      Selection& out) {
  const auto collect_range = [&](std::size_t begin, std::size_t end, Selection& part) {
    const std::size_t first = begin / peak_block;
    const Peaks here = peaks.empty() ? peaks : peaks.subspan(first, peaks_of(end) - first);
    if (!collect(values.subspan(begin, end - begin), here, least, limit, part)) return false;
    for (std::uint32_t& position : part.positions) position += static_cast<std::uint32_t>(begin);
    return true;
  };
  const bool complete = parallel_select(values.size(), peak_block, out, collect_range) && out.size() <= limit;
  if (!complete) out.clear();
  return complete;
}

void parallel_for_parts(std::size_t count, std::size_t entries, FunctionRef<void(std::size_t)> body) {
  parallel_for_part_ranges(count, entries, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) body(i);
  });
}

PartLoop parallel_parts(std::size_t entries) {
  return
      [entries](std::size_t count, FunctionRef<void(std::size_t)> body) { parallel_for_parts(count, entries, body); };
}

void parallel_for_pieces(std::size_t count, FunctionRef<void(std::size_t)> body) {
  parallel_for_parts(count, checksum_piece / sizeof(float), body);
}

}  // namespace weir::compressors
