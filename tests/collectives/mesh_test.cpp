#include "collectives/transports/mesh.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <fstream>
#include <string>

#include "base/errc.hpp"
#include "collectives/topologies/ring.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives {
namespace {

using namespace testing;
namespace net = boost::asio;
using net::ip::tcp;

tcp::socket dial(net::io_context& io, std::uint16_t port) {
  tcp::socket socket(io);
  socket.connect({net::ip::address_v4::loopback(), port});
  return socket;
}

TEST(Mesh, StrangersOnThePortAreTurnedAwayAndTheGroupGoesOn) {
  auto meshes = bind_all(3);
  const auto peers = addresses(meshes);
  net::io_context io;
  std::vector<tcp::socket> strangers;
  for (int i = 0; i < 8; ++i) {
    strangers.push_back(dial(io, peers[0].port));  // all before the ranks themselves
    if (i % 2 == 0) net::write(strangers.back(), net::buffer(std::string(100'000, static_cast<char>('A' + i))));
  }
  std::string hello_then_silence("WEIH\1\0\0\0", 8);
  net::write(strangers.back(), net::buffer(hello_then_silence));
  on_every_rank(3, [&](std::uint32_t rank) {
    auto group = meshes[rank]->join(group_of(rank, 3), peers, guard);
    ASSERT_TRUE(group) << group.error().message();
    std::vector<float> values(100, 1.0F);
    for (std::uint32_t lane = 0; lane < (*group)->lanes(); ++lane) {
      std::ranges::fill(values, 1.0F);
      ASSERT_TRUE((*group)->thread().run([&]() -> Task<> {
        Ring ring((*group)->lane(lane));
        const Buffer buffer{std::as_writable_bytes(std::span(values))};
        co_return co_await ring.all_reduce(buffer, ReduceOp::sum, Subject());
      }));
    }
    EXPECT_EQ(values[99], 3.0F);
    (*group)->close();
  });
}

/// Whether the other side has closed the connection by now.
bool is_closed(tcp::socket& socket) {
  socket.non_blocking(true);
  std::array<char, 1> byte{};
  boost::system::error_code code;
  net::read(socket, net::buffer(byte), code);
  return code != net::error::would_block;
}

TEST(Mesh, SilentStrangersDisplaceEachOtherAndNotARank) {
  auto meshes = bind_all(2);
  const auto peers = addresses(meshes);
  net::io_context io;
  std::vector<tcp::socket> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(dial(io, peers[0].port));
  const auto begun = std::chrono::steady_clock::now();
  std::jthread zero([&] { EXPECT_TRUE(meshes[0]->join(group_of(0, 2), peers, guard)); });
  // The port has taken all of them when it has dropped the 44th.
  std::array<char, 1> byte{};
  boost::system::error_code code;
  net::read(strangers[43], net::buffer(byte), code);
  EXPECT_TRUE(code);
  for (std::size_t i = 0; i < 44; ++i) EXPECT_TRUE(is_closed(strangers[i])) << i;
  const bool others_stay = !is_closed(strangers[44]) && !is_closed(strangers[299]);
  const bool in_time = std::chrono::steady_clock::now() - begun < std::chrono::seconds(5);  // that a stranger has
  EXPECT_TRUE(others_stay || !in_time) << "the newest has as much time as any other";
  EXPECT_TRUE(meshes[1]->join(group_of(1, 2), peers, guard));
}

/// How often this process has memory mapped that connections share.
std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("weir gradients") != std::string::npos;
  return count;
}

TEST(Mesh, RanksOfAHostShareMemoryUnlessOneDoesNotWantTo) {
  constexpr std::uint32_t size = 3;
  constexpr std::size_t lanes = 2;
  // Which of the ranks want to, and between how many pairs memory is shared then.
  const std::pair<std::array<bool, size>, std::size_t> cases[] = {
      {{true, true, true}, 3}, {{true, false, true}, 1}, {{false, false, false}, 0}};
  for (const auto& [wanted, pairs] : cases) {
    auto meshes = bind_all(size);
    const auto peers = addresses(meshes);
    std::vector<std::unique_ptr<Fabric>> fabrics(size);
    on_every_rank(size, [&](std::uint32_t rank) {
      Group group = group_of(rank, size, lanes);
      group.shared_memory = wanted[rank];
      auto joined = meshes[rank]->join(group, peers, guard);
      ASSERT_TRUE(joined) << joined.error().message();
      fabrics[rank] = std::move(*joined);
    });
    EXPECT_EQ(shared_mappings(), 2 * pairs * lanes);
    on_every_rank(size, [&](std::uint32_t rank) {
      float value = 1;
      ASSERT_TRUE(fabrics[rank]->thread().run([&]() -> Task<> {
        Ring ring(fabrics[rank]->lane(1));
        const Buffer buffer{std::as_writable_bytes(std::span(&value, 1))};
        co_return co_await ring.all_reduce(buffer, ReduceOp::sum, Subject());
      }));
      EXPECT_EQ(value, 3);
      fabrics[rank]->close();
    });
  }
}

TEST(Mesh, ThePortIsClosedOnceTheGroupStands) {
  auto meshes = bind_all(2);
  const auto peers = addresses(meshes);
  on_every_rank(2, [&](std::uint32_t rank) {
    auto group = meshes[rank]->join(group_of(rank, 2), peers, guard);
    ASSERT_TRUE(group);
    net::io_context io;
    tcp::socket late(io);
    boost::system::error_code code;
    late.connect({net::ip::address_v4::loopback(), peers[rank].port}, code);
    EXPECT_EQ(code, net::error::connection_refused);
    (*group)->close();
  });
}

/// Rank 1 joins with `theirs` a group in which rank 0 has the usual credentials; gives rank 1's error.
Error join_with(const Group& theirs) {
  auto meshes = bind_all(2);
  const auto peers = addresses(meshes);
  Error error;
  std::jthread zero([&] {
    const auto group = meshes[0]->join(group_of(0, 2), peers, guard);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::cancelled) << "rank 0 goes on waiting for the right caller";
  });
  const auto group = meshes[1]->join(theirs, peers, guard);
  if (!group) error = group.error();
  meshes[0]->abort(Error{Errc::cancelled, "test over"});
  return error;
}

TEST(Mesh, AnotherSecretIsRefused) {
  Group group = group_of(1, 2);
  group.secret = "something else";
  const Error error = join_with(group);
  EXPECT_EQ(error.code, Errc::unauthenticated) << error.message();
  EXPECT_NE(error.context.find("rank 0"), std::string::npos) << error.message();
}

TEST(Mesh, AnotherAttemptIsRefused) {
  Group group = group_of(1, 2);
  group.attempt = 6;
  EXPECT_EQ(join_with(group).code, Errc::conflict);
}

TEST(Mesh, AnotherJobIsRefused) {
  Group group = group_of(1, 2);
  group.job_id = "job-2";
  EXPECT_EQ(join_with(group).code, Errc::conflict);
}

TEST(Mesh, ACallerThatCannotProveItselfIsNotAdmitted) {
  // A hello that is right in every open field; the proof is made up.
  auto meshes = bind_all(2);
  const auto peers = addresses(meshes);
  std::jthread zero([&] {
    const auto group = meshes[0]->join(group_of(0, 2), peers, guard);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::cancelled);
  });
  // The fields are learnt by listening to a real caller.
  net::io_context io;
  tcp::acceptor tap(io, {net::ip::address_v4::loopback(), 0});
  auto caller = Mesh::bind("127.0.0.1").value();
  std::jthread one([&] {
    const std::vector<Peer> tapped{{"127.0.0.1", tap.local_endpoint().port()}, {"127.0.0.1", caller->port()}};
    EXPECT_EQ(caller->join(group_of(1, 2), tapped, guard).error().code, Errc::cancelled);
  });
  tcp::socket from_caller = tap.accept();
  std::array<char, 72> hello{};
  net::read(from_caller, net::buffer(hello));

  tcp::socket impostor = dial(io, peers[0].port);
  net::write(impostor, net::buffer(hello));
  std::array<char, 72> answer{};
  net::read(impostor, net::buffer(answer));
  net::write(impostor, net::buffer(std::string(32, 'x')));
  std::array<unsigned char, 8> verdict{};
  net::read(impostor, net::buffer(verdict));
  EXPECT_EQ(verdict[4], 2) << "not proved";
  caller->abort(Error{Errc::cancelled, "test over"});
  meshes[0]->abort(Error{Errc::cancelled, "test over"});
}

TEST(Mesh, TheDeadlineNamesWhoIsMissing) {
  auto meshes = bind_all(3);
  const auto group = meshes[0]->join(group_of(0, 3), addresses(meshes), std::chrono::milliseconds(1));
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, Errc::deadline_exceeded);
  EXPECT_NE(group.error().context.find("1, 2"), std::string::npos) << group.error().message();
}

TEST(Mesh, AbortBeforeJoinCounts) {
  auto meshes = bind_all(2);
  meshes[0]->abort(Error{Errc::cancelled, "stopping"});
  EXPECT_EQ(meshes[0]->join(group_of(0, 2), addresses(meshes), guard).error().code, Errc::cancelled);
}

TEST(Mesh, RefusesAHostThatIsNoAddress) {
  EXPECT_EQ(Mesh::bind("not an address").error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace weir::collectives
