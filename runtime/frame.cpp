#include "runtime/frame.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/segment_memory.hpp"
#include "base/xxh3.hpp"

namespace weir::runtime {
namespace {

constexpr std::uint32_t magic = 0x52494557;  // "WEIR" as bytes
constexpr std::size_t checked_bytes = 12;    // of the header, covered by its own checksum
constexpr std::size_t keep_capacity_max = 4u << 20;

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T take(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint32_t header_check(const std::byte* header) {
  return static_cast<std::uint32_t>(XXH3_64bits(header, checked_bytes));
}

/// The checksum of table and body, which are contiguous, and the segments.
std::uint64_t checksum(BytesView table_and_body, std::span<const Segment> segments) {
  std::uint64_t hash = XXH3_64bits(table_and_body.data(), table_and_body.size());
  for (const Segment& segment : segments) hash = XXH3_64bits_withSeed(segment.bytes().data(), segment.size(), hash);
  return hash;
}

}  // namespace

Result<void> FrameBuffer::add(FrameKind kind, BytesView body, std::span<const Segment> segments) {
  if (body.size() > std::numeric_limits<std::uint32_t>::max() || segments.size() > 0xffff) {
    return Error{Errc::exhausted, "a frame holds less than 4 GiB of body and 65536 segments"};
  }
  const std::size_t start = inline_.size();
  const std::size_t table_bytes = segments.size() * sizeof(std::uint64_t);
  inline_.resize(start + frame_header_bytes + table_bytes + body.size(), boost::container::default_init);
  std::byte* header = inline_.data() + start;
  std::byte* table = header + frame_header_bytes;
  std::size_t segment_bytes = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    put<std::uint64_t>(table + i * sizeof(std::uint64_t), segments[i].size());
    segment_bytes += segments[i].size();
  }
  if (!body.empty()) std::memcpy(table + table_bytes, body.data(), body.size());
  put<std::uint32_t>(header, magic);
  put<std::uint8_t>(header + 4, frame_version);
  put<std::uint8_t>(header + 5, static_cast<std::uint8_t>(kind));
  put<std::uint16_t>(header + 6, static_cast<std::uint16_t>(segments.size()));
  put<std::uint32_t>(header + 8, static_cast<std::uint32_t>(body.size()));
  put<std::uint32_t>(header + 12, header_check(header));
  put<std::uint64_t>(header + 16, checksum({table, table_bytes + body.size()}, segments));
  for (const Segment& segment : segments) {
    if (!segment.empty()) cuts_.push_back({inline_.size(), segment});
  }
  bytes_ += inline_.size() - start + segment_bytes;
  return {};
}

std::size_t FrameBuffer::spans(std::span<BytesView> out) const {
  std::size_t filled = 0;
  std::size_t position = inline_done_;
  auto emit = [&](BytesView bytes) {
    if (!bytes.empty() && filled < out.size()) out[filled++] = bytes;
  };
  for (std::size_t i = cuts_done_; i < cuts_.size() && filled < out.size(); ++i) {
    emit(BytesView(inline_).subspan(position, cuts_[i].after - position));
    position = cuts_[i].after;
    emit(cuts_[i].segment.bytes().subspan(i == cuts_done_ ? segment_done_ : 0));
  }
  emit(BytesView(inline_).subspan(position));
  return filled;
}

void FrameBuffer::consume(std::size_t count) {
  ensure(count <= bytes(), "more bytes written than were there");
  consumed_ += count;
  if (empty()) return clear();
  while (count > 0) {
    const bool cut = cuts_done_ < cuts_.size();
    const std::size_t inline_left = (cut ? cuts_[cuts_done_].after : inline_.size()) - inline_done_;
    if (inline_left > 0) {
      const std::size_t step = std::min(count, inline_left);
      inline_done_ += step;
      count -= step;
      continue;
    }
    const std::size_t step = std::min(count, cuts_[cuts_done_].segment.size() - segment_done_);
    segment_done_ += step;
    count -= step;
    if (segment_done_ == cuts_[cuts_done_].segment.size()) {
      cuts_[cuts_done_].segment = {};  // its owner may free it now
      ++cuts_done_;
      segment_done_ = 0;
    }
  }
}

void FrameBuffer::clear() {
  inline_.clear();
  if (inline_.capacity() > keep_capacity_max) inline_.shrink_to_fit();
  cuts_.clear();
  bytes_ = consumed_ = inline_done_ = cuts_done_ = segment_done_ = 0;
}

FrameDecoder::FrameDecoder(FrameLimits limits, std::size_t buffer_bytes)
    : limits_(limits), buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes)), capacity_(buffer_bytes) {
  ensure(capacity_ / 4 >= frame_header_bytes + limits.segments_max * sizeof(std::uint64_t),
         "the buffer holds a header and its table");
}

std::span<std::byte> FrameDecoder::prepare() {
  if (collecting_) {
    fill_large();
    if (part_ < parts_.size()) return parts_[part_].subspan(part_done_);
  }
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ > capacity_ / 2 && begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  ensure(end_ < capacity_, "frames are taken out before more bytes come in");
  return {buffer_.get() + end_, capacity_ - end_};
}

void FrameDecoder::commit(std::size_t count) {
  if (collecting_ && part_ < parts_.size()) {
    part_done_ += count;
    ensure(part_done_ <= parts_[part_].size(), "more bytes committed than prepared");
    return;
  }
  end_ += count;
  ensure(end_ <= capacity_, "more bytes committed than prepared");
}

Result<FrameDecoder::Header> FrameDecoder::parse_header(BytesView bytes) const {
  const std::byte* data = bytes.data();
  if (take<std::uint32_t>(data) != magic) return Error{Errc::malformed, "not a weir frame"};
  const auto version = take<std::uint8_t>(data + 4);
  if (version != frame_version) {
    return Error{Errc::unsupported,
                 "frame version " + std::to_string(version) + ", this build speaks " + std::to_string(frame_version)};
  }
  if (take<std::uint32_t>(data + 12) != header_check(data)) return Error{Errc::malformed, "frame header checksum"};
  const auto kind = take<std::uint8_t>(data + 5);
  if (kind == 0 || kind > frame_kind_max) return Error{Errc::malformed, "frame kind " + std::to_string(kind)};
  Header header;
  header.kind = static_cast<FrameKind>(kind);
  header.segments = take<std::uint16_t>(data + 6);
  header.body_bytes = take<std::uint32_t>(data + 8);
  header.checksum = take<std::uint64_t>(data + 16);
  if (header.body_bytes > limits_.body_bytes_max || header.segments > limits_.segments_max) {
    return Error{Errc::exhausted, "frame of " + std::to_string(header.body_bytes) + " bytes and " +
                                      std::to_string(header.segments) + " segments; allowed are " +
                                      std::to_string(limits_.body_bytes_max) + " and " +
                                      std::to_string(limits_.segments_max)};
  }
  return header;
}

Result<bool> FrameDecoder::next(FrameView& frame) {
  if (collecting_) {
    fill_large();
    return finish_large(frame);
  }
  body_ = {};  // of the frame before: its receiver has taken what it keeps
  segments_.clear();
  const BytesView bytes(buffer_.get() + begin_, end_ - begin_);
  if (bytes.size() < frame_header_bytes) return false;
  auto header = parse_header(bytes);
  if (!header) return header.error();
  const std::size_t small_bytes = frame_header_bytes + header->body_bytes;
  if (header->segments == 0 && small_bytes <= capacity_ / 4) {
    if (bytes.size() < small_bytes) return false;
    const BytesView body = bytes.subspan(frame_header_bytes, header->body_bytes);
    if (checksum(body, {}) != header->checksum) return Error{Errc::malformed, "frame checksum"};
    begin_ += small_bytes;
    frame = {header->kind, body, {}};
    return true;
  }
  const std::size_t table_bytes = header->segments * sizeof(std::uint64_t);
  if (bytes.size() < frame_header_bytes + table_bytes) return false;
  auto begun = begin_large(*header, bytes.subspan(frame_header_bytes, table_bytes));
  if (!begun) return begun.error();
  begin_ += frame_header_bytes + table_bytes;
  fill_large();
  return finish_large(frame);
}

Result<void> FrameDecoder::begin_large(const Header& header, BytesView table) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < header.segments; ++i) {
    const auto size = take<std::uint64_t>(table.data() + i * sizeof(std::uint64_t));
    if (size > limits_.segments_bytes_max - total) {
      return Error{Errc::exhausted, "segments of more than " + std::to_string(limits_.segments_bytes_max) + " bytes"};
    }
    total += size;
  }
  header_ = header;
  // The checksum runs over table and body: they are kept together.
  auto [memory, bytes] = uninitialized_segment(table.size() + header.body_bytes);
  if (bytes.data() == nullptr) return Error{Errc::exhausted, "no memory for a frame's body"};
  std::ranges::copy(table, bytes.begin());
  table_bytes_ = table.size();
  body_ = std::move(memory);
  parts_.assign(1, bytes.subspan(table.size()));
  segments_.clear();
  for (std::size_t i = 0; i < header.segments; ++i) {
    const auto size = take<std::uint64_t>(table.data() + i * sizeof(std::uint64_t));
    auto [segment, part] = uninitialized_segment(size);
    if (part.data() == nullptr) return Error{Errc::exhausted, "no memory for a segment"};
    segments_.push_back(std::move(segment));
    parts_.push_back(part);
  }
  part_ = part_done_ = 0;
  collecting_ = true;
  return {};
}

void FrameDecoder::fill_large() {
  while (part_ < parts_.size()) {
    const std::size_t step = std::min(end_ - begin_, parts_[part_].size() - part_done_);
    if (step > 0) std::memcpy(parts_[part_].data() + part_done_, buffer_.get() + begin_, step);
    begin_ += step;
    part_done_ += step;
    if (part_done_ < parts_[part_].size()) return;
    ++part_;
    part_done_ = 0;
  }
}

Result<bool> FrameDecoder::finish_large(FrameView& frame) {
  if (part_ < parts_.size()) return false;
  collecting_ = false;
  if (checksum(body_.bytes(), segments_) != header_.checksum) return Error{Errc::malformed, "frame checksum"};
  frame = {header_.kind, body_.bytes().subspan(table_bytes_), segments_};
  return true;
}

}  // namespace weir::runtime
