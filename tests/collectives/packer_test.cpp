#include "collectives/transports/packer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "collectives/transports/stream_communicator.hpp"
#include "tests/collectives/choices.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/streams.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;
using std::chrono::nanoseconds;

/// A stream over a line of which a test says how long it takes for a byte. It carries what the stream under it does.
class Line final : public Stream {
 public:
  Line(std::unique_ptr<Stream> stream, nanoseconds per_byte) : stream_(std::move(stream)), per_byte_(per_byte) {}

  Result<std::size_t> write(std::span<const iovec> parts) override {
    auto written = stream_->write(parts);
    if (written) carry(*written);
    return written;
  }
  Result<std::size_t> read(std::span<const iovec> parts) override { return stream_->read(parts); }
  void end_writing() override { stream_->end_writing(); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }
  int descriptor() const override { return stream_->descriptor(); }
  Readiness readiness(std::uint32_t events) override { return stream_->readiness(events); }
  bool needs_checksums() const override { return true; }
  std::optional<LineUse> line_use() const override { return use_; }

  void carry(std::size_t bytes) {
    use_.bytes += bytes;
    use_.busy += static_cast<std::int64_t>(bytes) * per_byte_;
  }
  void take(nanoseconds per_byte) { per_byte_ = per_byte; }

 private:
  std::unique_ptr<Stream> stream_;
  nanoseconds per_byte_;
  LineUse use_;
};

constexpr std::size_t piece_bytes = 256 * 1024;
constexpr int pieces_until_look = 16;

/// Of whom the clock stands still unless a test moves it: packing takes no time then.
struct SlowLine : ::testing::Test {
  std::chrono::steady_clock::time_point time;
  nanoseconds each_call{0};
  Packer packer{[this] { return time += each_call; }};
  Line line{nullptr, nanoseconds(8)};
  Bytes piece = Bytes(piece_bytes);
  Bytes out = Bytes(packed_bytes_max(piece_bytes));

  void SetUp() override { fill(noise(0, piece_bytes / sizeof(float))); }
  void fill(const std::vector<float>& values) { std::memcpy(piece.data(), values.data(), piece.size()); }

  /// Sends some pieces, and says how many of them were packed.
  int send(int pieces, Element element = Element::float32) {
    int count = 0;
    for (int i = 0; i < pieces; ++i) {
      std::size_t bytes = 0;
      if (packer.is_worthwhile(line, element, piece.size())) bytes = packer.pack(element, piece, out);
      line.carry(bytes > 0 ? bytes : piece.size());
      count += bytes > 0 ? 1 : 0;
    }
    return count;
  }
};

TEST_F(SlowLine, IsPackedForWhenItWasSeenToBeSlow) {
  EXPECT_EQ(send(pieces_until_look - 1), 0) << "nothing is known yet";
  EXPECT_EQ(send(100), 100);
}

TEST_F(SlowLine, IsNotPackedForOnceItIsFast) {
  line.take(nanoseconds(0));
  EXPECT_EQ(send(200), 0);
}

TEST_F(SlowLine, MayChange) {
  send(pieces_until_look);
  EXPECT_EQ(send(pieces_until_look - 1), pieces_until_look - 1);
  line.take(nanoseconds(0));
  send(3 * pieces_until_look);
  EXPECT_EQ(send(100), 0);
  line.take(nanoseconds(80));
  send(3 * pieces_until_look);
  EXPECT_EQ(send(100), 100);
}

TEST_F(SlowLine, IsNotPackedForWherePackingTakesLongerThanItSaves) {
  each_call = std::chrono::milliseconds(10);  // for a piece that the line carries in 2 ms
  EXPECT_GE(send(2 * pieces_until_look), 1) << "what it takes is known after it was done";
  EXPECT_EQ(send(100), 0);
}

TEST_F(SlowLine, IsNotPackedForWhereNumbersDoNotGetFewer) {
  std::mt19937 random(5);
  std::vector<float> values(piece_bytes / sizeof(float));
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  fill(values);
  EXPECT_EQ(send(500), 0) << "a piece that takes no less than before is sent as it is";
}

TEST_F(SlowLine, CarriesHalfPrecisionAsItIs) { EXPECT_EQ(send(100, Element::float16), 0); }

/// Ranks of which each pair is connected by a line as slow as that.
class SlowRanks {
 public:
  SlowRanks(std::uint32_t size, nanoseconds per_byte) {
    std::vector<std::vector<std::unique_ptr<Stream>>> streams(size);
    for (auto& of_rank : streams) of_rank.resize(size);
    for (std::uint32_t a = 0; a < size; ++a) {
      for (std::uint32_t b = a + 1; b < size; ++b) {
        auto [one, other] = over_sockets();
        streams[a][b] = std::make_unique<Line>(std::move(one), per_byte);
        streams[b][a] = std::make_unique<Line>(std::move(other), per_byte);
      }
    }
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      std::vector<std::vector<std::unique_ptr<Stream>>> lanes;
      lanes.push_back(std::move(streams[rank]));
      fabrics_.push_back(stream_fabric({.rank = rank, .attempt = 1}, std::move(lanes)));
    }
  }

  template <class Number>
  void add_up(const Choice& choice, Element element, std::vector<std::vector<Number>>& values) {
    on_every_rank(static_cast<std::uint32_t>(fabrics_.size()), [&](std::uint32_t rank) {
      const auto done = fabrics_[rank]->thread().run([&]() -> Task<> {
        const auto collective = choice.make(fabrics_[rank]->lane(0));
        co_return co_await collective->all_reduce(buffer_of(values[rank], element), ReduceOp::sum, Subject());
      });
      EXPECT_TRUE(done) << "rank " << rank << ": " << done.error().message();
    });
  }
  std::uint64_t sent_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& fabric : fabrics_) bytes += fabric->lane(0).traffic().sent_bytes;
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

class PackedSums : public ::testing::TestWithParam<Choice> {
 protected:
  /// Adds up over slow lines and over fast ones, and says what part of the bytes the slow ones carry.
  template <class Number>
  double share_of_bytes(Element element) {
    constexpr std::uint32_t size = 4;
    constexpr std::size_t count = 2'000'017;
    const auto before = noise_of_ranks<Number>(size, count);
    SlowRanks slow(size, std::chrono::milliseconds(1));  // packed on any machine, however long it interrupts packing
    SlowRanks fast(size, nanoseconds(0));
    double share = 0;
    for (int round = 0; round < 4; ++round) {  // after three enough is sent for a look at each line
      auto values = before;
      auto plain = before;
      const std::uint64_t slow_before = slow.sent_bytes();
      const std::uint64_t fast_before = fast.sent_bytes();
      slow.add_up(GetParam(), element, values);
      fast.add_up(GetParam(), element, plain);
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        EXPECT_EQ(std::memcmp(values[rank].data(), plain[rank].data(), count * sizeof(Number)), 0) << "rank " << rank;
      }
      share =
          static_cast<double>(slow.sent_bytes() - slow_before) / static_cast<double>(fast.sent_bytes() - fast_before);
    }
    return share;
  }
};
INSTANTIATE_TEST_SUITE_P(Catalog, PackedSums, ::testing::ValuesIn(all_choices()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(PackedSums, HaveTheSameBitsOfFewerBytes) {
  if (!GetParam().type->fits(4)) GTEST_SKIP();
  EXPECT_LT(share_of_bytes<float>(Element::float32), 0.88);
  EXPECT_LT(share_of_bytes<BFloat16>(Element::bfloat16), 0.75);
  EXPECT_EQ(share_of_bytes<Half>(Element::float16), 1);
}

}  // namespace
}  // namespace weir::collectives
