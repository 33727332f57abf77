#include "runtime/serialize.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "protocol/node.hpp"
#include "protocol/training.hpp"

namespace weir::runtime {
namespace {

struct Written {
  Bytes body;
  std::vector<Segment> segments;
};

template <class T>
Written write(const T& value) {
  Written written;
  Writer out(written.body, written.segments);
  write_value(out, value);
  return written;
}

template <class T>
Result<T> read(const Written& written) {
  Reader in(written.body, written.segments);
  return read_value<T>(in);
}

struct Failure {
  Error error;
};

struct Tree {
  std::vector<Tree> children;
};

TEST(Serialize, ProtocolStructsComeBackAsTheyWent) {
  protocol::WorkerExit exit;
  exit.node_id = "n1";
  exit.rank = 3;
  exit.signal = 9;
  exit.last_output = std::string("a\0b", 3);
  const auto back = read<protocol::WorkerExit>(write(exit));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->node_id, "n1");
  EXPECT_EQ(back->rank, 3u);
  EXPECT_FALSE(back->exit_code);
  EXPECT_EQ(back->signal, 9);
  EXPECT_EQ(back->last_output.size(), 3u);

  protocol::NodeInfo info;
  info.resources = {{"cpu", 2.5}, {"gpu", 1}};
  info.labels = {{"zone", "a"}};
  const auto node = read<protocol::NodeInfo>(write(info));
  ASSERT_TRUE(node);
  EXPECT_EQ(node->resources, info.resources);
  EXPECT_EQ(node->labels, info.labels);

  protocol::Report report;
  report.points = {{"loss", 5, 1.5, 100, 0.25}, {"accuracy", 6, 2.5, 200, 0.5}};
  const auto points = read<protocol::Report>(write(report));
  ASSERT_TRUE(points);
  ASSERT_EQ(points->points.size(), 2u);
  EXPECT_EQ(points->points[1].name, "accuracy");
  EXPECT_EQ(points->points[1].value, 0.5);
}

TEST(Serialize, AnEnumEndsAtItsLastValue) {
  Written written = write(protocol::Outcome::failed);
  EXPECT_EQ(read<protocol::Outcome>(written).value(), protocol::Outcome::failed);
  written.body.back() = std::byte{3};
  EXPECT_EQ(read<protocol::Outcome>(written).error().code, Errc::malformed);
}

TEST(Serialize, SegmentsStayWhereTheyAre) {
  protocol::CheckpointPiece piece;
  piece.bytes = Segment::own(Bytes(1000));
  const Written written = write(piece);
  ASSERT_EQ(written.segments.size(), 1u);
  EXPECT_EQ(written.segments[0].bytes().data(), piece.bytes.bytes().data());
  EXPECT_LT(written.body.size(), 100u);
}

TEST(Serialize, ErrorsKeepTheirMeaning) {
  const Error error{Errc::conflict, "taken"};
  EXPECT_EQ(read<Failure>(write(Failure{error}))->error, error);
  const Error system{boost::system::error_code(2, boost::system::system_category()), "open"};
  EXPECT_EQ(read<Failure>(write(Failure{system}))->error, system);
  const Result<int> failed = error;
  Written written = write(failed);
  Reader in(written.body, written.segments);
  Result<int> back = 5;
  EXPECT_TRUE(Codec<Result<int>>::read(in, back));
  EXPECT_EQ(back.error(), error);
}

TEST(Serialize, EveryTruncationIsMalformed) {
  protocol::WorkerLaunch launch;
  launch.worker_id = "w";
  launch.resources = {{"cpu", 1}};
  launch.environment = {{"A", "b"}};
  const Written whole = write(launch);
  for (std::size_t length = 0; length < whole.body.size(); ++length) {
    const Written part{Bytes(whole.body.begin(), whole.body.begin() + static_cast<std::ptrdiff_t>(length)), {}};
    const auto back = read<protocol::WorkerLaunch>(part);
    ASSERT_FALSE(back) << length;
    EXPECT_EQ(back.error().code, Errc::malformed);
  }
  Written longer = whole;
  longer.body.push_back(std::byte{0});
  EXPECT_FALSE(read<protocol::WorkerLaunch>(longer)) << "bytes that nobody asked for";
}

TEST(Serialize, HostileCountsAllocateNothing) {
  Written hostile;
  Writer out(hostile.body, hostile.segments);
  out.number(std::numeric_limits<std::uint32_t>::max());
  EXPECT_FALSE(read<std::string>(hostile));
  EXPECT_FALSE(read<std::vector<double>>(hostile));
  EXPECT_FALSE(read<std::vector<std::string>>(hostile));
  const auto map = read<protocol::Resources>(hostile);
  EXPECT_FALSE(map);
}

TEST(Serialize, DepthIsLimited) {
  Written deep;
  Writer out(deep.body, deep.segments);
  for (int i = 0; i < 100'000; ++i) out.number(std::uint32_t{1});
  out.number(std::uint32_t{0});
  EXPECT_FALSE(read<Tree>(deep));
}

TEST(Serialize, BadTruthValuesAndRepeatedKeysAreMalformed) {
  EXPECT_FALSE(read<bool>({{std::byte{2}}, {}}));
  Written twice;
  Writer out(twice.body, twice.segments);
  out.count(2);
  for (int i = 0; i < 2; ++i) {
    Codec<std::string>::write(out, "cpu");
    out.number(1.0);
  }
  EXPECT_FALSE(read<protocol::Resources>(twice));
}

}  // namespace
}  // namespace weir::runtime
