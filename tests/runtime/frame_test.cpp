#include "runtime/frame.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>

#include "base/errc.hpp"

namespace weir::runtime {
namespace {

Bytes bytes_of(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Bytes wire(const FrameBuffer& buffer) {
  std::array<BytesView, 64> spans;
  Bytes all;
  const std::size_t count = buffer.spans(spans);
  for (std::size_t i = 0; i < count; ++i) all.insert(all.end(), spans[i].begin(), spans[i].end());
  return all;
}

Bytes frame(FrameKind kind, const Bytes& body, const std::vector<Segment>& segments = {}) {
  FrameBuffer buffer;
  EXPECT_TRUE(buffer.add(kind, body, segments));
  return wire(buffer);
}

struct Received {
  FrameKind kind{};
  Bytes body;
  std::vector<Segment> segments;
};

/// Puts `stream` into the decoder in pieces of at most `piece` bytes.
Result<std::vector<Received>> decode(FrameDecoder& decoder, BytesView stream, std::size_t piece) {
  std::vector<Received> frames;
  while (!stream.empty()) {
    const auto space = decoder.prepare();
    const std::size_t count = std::min({piece, space.size(), stream.size()});
    std::memcpy(space.data(), stream.data(), count);
    decoder.commit(count);
    stream = stream.subspan(count);
    FrameView view;
    while (true) {
      const auto more = decoder.next(view);
      if (!more) return more.error();
      if (!*more) break;
      frames.push_back({view.kind, Bytes(view.body.begin(), view.body.end()),
                        std::vector<Segment>(view.segments.begin(), view.segments.end())});
    }
  }
  return frames;
}

boost::system::error_code error_of(BytesView stream, FrameLimits limits = {}) {
  FrameDecoder decoder(limits);
  const auto frames = decode(decoder, stream, stream.size());
  return frames ? boost::system::error_code() : frames.error().code;
}

TEST(Frame, ArrivesWholeHoweverTheStreamIsCut) {
  FrameBuffer buffer;
  const Bytes small = bytes_of(100);
  const Bytes large = bytes_of(70'000);  // more than the decoder's small buffer below takes
  const std::vector<Segment> segments{Segment::own(bytes_of(5000, 2)), Segment(), Segment::own(bytes_of(1, 3))};
  ASSERT_TRUE(buffer.add(FrameKind::call, small, {}));
  ASSERT_TRUE(buffer.add(FrameKind::reply, large, {}));
  ASSERT_TRUE(buffer.add(FrameKind::tell, small, segments));
  ASSERT_TRUE(buffer.add(FrameKind::ping, {}, {}));
  const Bytes stream = wire(buffer);
  EXPECT_EQ(stream.size(), buffer.bytes());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, stream.size()}) {
    FrameDecoder decoder({}, 16 << 10);
    const auto frames = decode(decoder, stream, piece);
    ASSERT_TRUE(frames) << frames.error().message();
    ASSERT_EQ(frames->size(), 4u) << "in pieces of " << piece;
    EXPECT_EQ((*frames)[0].body, small);
    EXPECT_EQ((*frames)[1].body, large);
    EXPECT_EQ((*frames)[2].kind, FrameKind::tell);
    ASSERT_EQ((*frames)[2].segments.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::ranges::equal((*frames)[2].segments[i].bytes(), segments[i].bytes()));
    }
    EXPECT_EQ((*frames)[3].kind, FrameKind::ping);
  }
}

TEST(Frame, SegmentsAreNotCopiedOnTheWayOut) {
  const Segment segment = Segment::own(bytes_of(1 << 20));
  FrameBuffer buffer;
  ASSERT_TRUE(buffer.add(FrameKind::tell, bytes_of(10), std::array{segment}));
  std::array<BytesView, 4> spans;
  ASSERT_EQ(buffer.spans(spans), 2u);
  EXPECT_EQ(spans[1].data(), segment.bytes().data());
}

TEST(Frame, MemoryOfALargeFrameIsFreedWithTheNextCall) {
  const Bytes stream = frame(FrameKind::tell, bytes_of(8 << 20), {Segment::own(bytes_of(33 << 20))});
  FrameDecoder decoder;
  std::size_t done = 0;
  FrameView view;
  const auto before = ::mallinfo2().hblkhd;  // bytes of large allocations
  for (bool whole = false; !whole;) {
    const auto space = decoder.prepare();
    const std::size_t count = std::min(space.size(), stream.size() - done);
    std::memcpy(space.data(), stream.data() + done, count);
    decoder.commit(count);
    done += count;
    whole = decoder.next(view).value();
  }
  EXPECT_EQ(view.segments.size(), 1u);
  EXPECT_FALSE(decoder.next(view).value());
  EXPECT_EQ(::mallinfo2().hblkhd, before);
}

TEST(Frame, BufferIsConsumedInAnySteps) {
  std::mt19937 random(7);
  FrameBuffer buffer;
  for (unsigned i = 0; i < 20; ++i) {
    ASSERT_TRUE(buffer.add(FrameKind::tell, bytes_of(i * 13, i), std::array{Segment::own(bytes_of(i * 7, i))}));
  }
  Bytes expected = wire(buffer);
  Bytes written;
  while (!buffer.empty()) {
    std::array<BytesView, 3> spans;
    const std::size_t count = buffer.spans(spans);
    Bytes ready;
    for (std::size_t i = 0; i < count; ++i) ready.insert(ready.end(), spans[i].begin(), spans[i].end());
    ready.resize(std::min<std::size_t>(ready.size(), 1 + random() % 200));
    buffer.consume(ready.size());
    written.insert(written.end(), ready.begin(), ready.end());
  }
  EXPECT_EQ(written, expected);
}

TEST(Frame, EveryFlippedBitIsDetected) {
  const std::vector<Segment> segments{Segment::own(bytes_of(40, 2))};
  const Bytes good = frame(FrameKind::call, bytes_of(50), segments);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    FrameDecoder decoder({.body_bytes_max = 1000, .segments_max = 4, .segments_bytes_max = 1000});
    const auto frames = decode(decoder, bad, bad.size());
    // A longer length waits for more bytes, and the checksum tells in the end; nothing is ever delivered.
    EXPECT_TRUE(!frames || frames->empty()) << "bit " << bit;
  }
}

TEST(Frame, TruncatedFramesAreNeverDelivered) {
  const Bytes good = frame(FrameKind::call, bytes_of(50), {Segment::own(bytes_of(40, 2))});
  for (std::size_t length = 0; length < good.size(); ++length) {
    FrameDecoder decoder;
    const auto frames = decode(decoder, BytesView(good).first(length), 16);
    ASSERT_TRUE(frames);
    EXPECT_TRUE(frames->empty());
  }
}

TEST(Frame, GarbageAndOtherVersionsAreRefused) {
  EXPECT_EQ(error_of(bytes_of(1000)), Errc::malformed);
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(error_of(std::as_bytes(std::span(http))), Errc::malformed);
  Bytes other = frame(FrameKind::call, bytes_of(10));
  other[4] = std::byte{frame_version + 1};
  EXPECT_EQ(error_of(other), Errc::unsupported);
}

TEST(Frame, LengthsOverTheLimitsAreRefusedBeforeTheBytesCome) {
  const FrameLimits limits{.body_bytes_max = 1000, .segments_max = 2, .segments_bytes_max = 1000};
  const auto start = [](const Bytes& whole, std::size_t count) { return Bytes(whole.begin(), whole.begin() + count); };
  EXPECT_EQ(error_of(start(frame(FrameKind::call, bytes_of(1001)), frame_header_bytes), limits), Errc::exhausted);
  const Segment half = Segment::own(bytes_of(600));
  const Bytes two = frame(FrameKind::call, {}, {half, half});
  EXPECT_EQ(error_of(start(two, frame_header_bytes + 16), limits), Errc::exhausted);
  const Bytes three = frame(FrameKind::call, {}, {Segment(), Segment(), Segment()});
  EXPECT_EQ(error_of(start(three, frame_header_bytes), limits), Errc::exhausted);
}

}  // namespace
}  // namespace weir::runtime
