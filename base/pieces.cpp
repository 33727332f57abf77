#include "base/pieces.hpp"

#include <algorithm>

#include "base/ensure.hpp"

namespace weir {

void Pieces::add(Segment piece) {
  if (piece.empty()) return;
  begins_.push_back(size_);
  size_ += piece.size();
  segments_.push_back(std::move(piece));
}

void Pieces::append_views(std::uint64_t offset, std::uint64_t bytes, std::vector<BytesView>& out) const {
  ensure(offset <= size_ && bytes <= size_ - offset, "bytes that are there");
  auto at = static_cast<std::size_t>(std::ranges::upper_bound(begins_, offset) - begins_.begin());
  for (; bytes > 0; ++at) {  // the segment before `at` holds `offset`
    const BytesView rest = segments_[at - 1].bytes().subspan(offset - begins_[at - 1]);
    const BytesView view = rest.first(std::min<std::uint64_t>(rest.size(), bytes));
    out.push_back(view);
    offset += view.size();
    bytes -= view.size();
  }
}

Bytes Pieces::copy(std::uint64_t offset, std::uint64_t bytes) const {
  std::vector<BytesView> views;
  append_views(offset, bytes, views);
  Bytes all;
  all.reserve(bytes);
  for (const BytesView view : views) append(all, view);
  return all;
}

}  // namespace weir
