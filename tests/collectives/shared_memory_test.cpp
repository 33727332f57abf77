#include "collectives/transports/shared_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/errc.hpp"

namespace weir::collectives {
namespace {

constexpr std::size_t capacity = 4096;

using Side = SharedMemoryStream::Side;

/// A pair of connected sockets and the memory of a connection.
struct Connection {
  Connection() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    creator = Descriptor(pair[0]);
    other = Descriptor(pair[1]);
  }
  Descriptor creator;
  Descriptor other;
  SharedMemory memory = SharedMemory::create(capacity).value();
};

/// Both ends in this process, each with a mapping of its own.
struct Ends {
  Ends() {
    Connection connection;
    Descriptor copy(::dup(connection.memory.descriptor()));
    other.emplace(std::move(connection.other), SharedMemory::open(std::move(copy)).value(), Side::other);
    creator.emplace(std::move(connection.creator), std::move(connection.memory), Side::creator);
  }
  std::optional<SharedMemoryStream> creator;
  std::optional<SharedMemoryStream> other;
};

iovec part_of(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }

Result<std::size_t> write(SharedMemoryStream& stream, std::span<std::byte> bytes) {
  const iovec part = part_of(bytes);
  return stream.write(std::span(&part, 1));
}
Result<std::size_t> read(SharedMemoryStream& stream, std::span<std::byte> bytes) {
  const iovec part = part_of(bytes);
  return stream.read(std::span(&part, 1));
}

/// Passes what the descriptor tells on to the stream; false if it tells nothing.
bool told(SharedMemoryStream& stream, int milliseconds = 0) {
  pollfd watched{.fd = stream.descriptor(), .events = POLLIN | POLLRDHUP, .revents = 0};
  if (::poll(&watched, 1, milliseconds) <= 0) return false;
  std::uint32_t events = 0;
  if (watched.revents & POLLIN) events |= EPOLLIN;
  if (watched.revents & POLLRDHUP) events |= EPOLLRDHUP;
  if (watched.revents & POLLHUP) events |= EPOLLHUP;
  stream.readiness(events);
  return true;
}

std::byte byte_at(std::uint64_t position) { return static_cast<std::byte>(position % 251); }

TEST(SharedMemoryStream, CarriesPartsOfAnyLengthInOrder) {
  Ends ends;
  std::mt19937 random(1);
  const auto parts_of = [&](Bytes& bytes) {
    std::vector<iovec> parts;
    for (std::span<std::byte> rest = bytes; !rest.empty();) {
      const std::size_t size = std::min<std::size_t>(rest.size(), random() % 1000);
      parts.push_back(part_of(rest.first(size)));
      rest = rest.subspan(size);
    }
    return parts;
  };
  std::uint64_t sent = 0;
  std::uint64_t arrived = 0;
  while (arrived < 1'000'000) {
    Bytes out(random() % 6000);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = byte_at(sent + i);
    const auto taken = ends.creator->write(parts_of(out));
    ASSERT_TRUE(taken) << taken.error().message();
    sent += *taken;
    Bytes in(random() % 6000);
    const auto got = ends.other->read(parts_of(in));
    ASSERT_TRUE(got) << got.error().message();
    for (std::size_t i = 0; i < *got; ++i) ASSERT_EQ(in[i], byte_at(arrived + i));
    arrived += *got;
    ASSERT_LE(arrived, sent);
    ASSERT_LE(sent, arrived + capacity);
  }
}

TEST(SharedMemoryStream, ABellRingsForASideThatWaits) {
  Ends ends;
  Bytes bytes(10'000);
  // Nobody waits.
  EXPECT_EQ(write(*ends.creator, std::span(bytes).first(100)).value(), 100U);
  EXPECT_FALSE(told(*ends.other));
  // The reader has found less than it wanted.
  EXPECT_EQ(read(*ends.other, bytes).value(), 100U);
  EXPECT_FALSE(told(*ends.other));
  EXPECT_EQ(write(*ends.creator, bytes).value(), capacity);
  EXPECT_TRUE(told(*ends.other));
  EXPECT_FALSE(told(*ends.other)) << "once";
  // The writer has found too little room.
  EXPECT_FALSE(told(*ends.creator));
  EXPECT_EQ(read(*ends.other, std::span(bytes).first(10)).value(), 10U);
  EXPECT_TRUE(told(*ends.creator));
  EXPECT_EQ(write(*ends.creator, bytes).value(), 10U);
}

TEST(SharedMemoryStream, WhatWasWrittenBeforeTheEndIsReadFirst) {
  Ends ends;
  Bytes bytes(1000);
  EXPECT_EQ(write(*ends.creator, bytes).value(), 1000U);
  ends.creator->end_writing();
  EXPECT_TRUE(told(*ends.other));
  EXPECT_EQ(read(*ends.other, std::span(bytes).first(600)).value(), 600U);
  EXPECT_EQ(read(*ends.other, bytes).value(), 400U);
  EXPECT_EQ(read(*ends.other, bytes).error().code, Errc::peer_lost);
  // The other direction is still there.
  EXPECT_EQ(write(*ends.other, bytes).value(), 1000U);
  EXPECT_EQ(read(*ends.creator, bytes).value(), 1000U);
  ends.creator.reset();
  EXPECT_TRUE(told(*ends.other));
  EXPECT_EQ(write(*ends.other, bytes).error().code, Errc::peer_lost);
}

TEST(SharedMemoryStream, ImpossiblePositionsAreAnError) {
  Connection connection;
  Descriptor copy(::dup(connection.memory.descriptor()));
  const SharedMemory seen = SharedMemory::open(std::move(copy)).value();
  SharedMemoryStream stream(std::move(connection.creator), std::move(connection.memory), Side::creator);
  Bytes bytes(100);
  seen.ring(1).written = capacity + 1;
  EXPECT_EQ(read(stream, bytes).error().code, Errc::malformed);
  seen.ring(0).read = 1;
  EXPECT_EQ(write(stream, bytes).error().code, Errc::malformed);
}

TEST(SharedMemory, WhatCouldChangeItsSizeIsRefused) {
  const auto memory_of = [](std::size_t bytes, int seals) {
    Descriptor descriptor(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(*descriptor, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(*descriptor, F_ADD_SEALS, seals), 0);
    return SharedMemory::open(std::move(descriptor));
  };
  constexpr int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  constexpr std::size_t right = 4096 + 2 * capacity;
  EXPECT_TRUE(memory_of(right, all));
  EXPECT_EQ(memory_of(right, F_SEAL_GROW | F_SEAL_SEAL).error().code, Errc::malformed);
  EXPECT_EQ(memory_of(right, 0).error().code, Errc::malformed);
  for (const std::size_t wrong : {0UL, 1UL, 4096UL, 4097UL, right - 1, right + 4096, 4096 + 2 * (capacity / 2)}) {
    EXPECT_EQ(memory_of(wrong, all).error().code, Errc::malformed) << wrong;
  }
  EXPECT_EQ(SharedMemory::open(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))).error().code, Errc::malformed);
  EXPECT_EQ(SharedMemory::open(Descriptor()).error().code, Errc::malformed);
}

/// How many files this process has open, and how often it has memory mapped that connections share. The memory has no
/// name in a directory: it is gone with the last of both.
std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}
std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("weir gradients") != std::string::npos;
  return count;
}

/// In a process of its own: writes for ever.
[[noreturn]] void write_for_ever(Connection& connection) {
  connection.creator = Descriptor();
  SharedMemoryStream stream(std::move(connection.other), std::move(connection.memory), Side::other);
  std::array<std::byte, 1000> bytes;
  std::uint64_t position = 0;
  while (true) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(position + i);
    const auto taken = write(stream, bytes);
    if (!taken) ::_exit(1);
    position += *taken;
    if (*taken < bytes.size()) told(stream, -1);
  }
}

TEST(SharedMemoryStream, APeerThatIsKilledIsNoticedAndNothingIsLeft) {
  const auto files = open_files();
  const std::size_t mappings = shared_mappings();
  std::mt19937 random(2);
  for (int kill = 0; kill < 1000; ++kill) {
    Connection connection;
    const pid_t peer = ::fork();
    ASSERT_GE(peer, 0);
    if (peer == 0) write_for_ever(connection);
    connection.other = Descriptor();
    SharedMemoryStream stream(std::move(connection.creator), std::move(connection.memory), Side::creator);
    if (kill == 0) EXPECT_GT(shared_mappings(), mappings);
    const std::uint64_t kill_at = random() % 20'000;
    std::uint64_t position = 0;
    bool killed = false;
    Bytes bytes(3000);
    while (true) {
      if (!killed && position >= kill_at) killed = ::kill(peer, SIGKILL) == 0;
      const auto got = read(stream, bytes);
      if (!got) {
        EXPECT_EQ(got.error().code, Errc::peer_lost) << got.error().message();
        break;
      }
      for (std::size_t i = 0; i < *got; ++i) ASSERT_EQ(bytes[i], byte_at(position + i)) << position;
      position += *got;
      const bool goes_on = *got == bytes.size() || told(stream, 60'000);
      ASSERT_TRUE(goes_on) << "the end of the peer is an event";
    }
    EXPECT_TRUE(killed);
    int status = 0;
    ASSERT_EQ(::waitpid(peer, &status, 0), peer);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(open_files(), files);
  EXPECT_EQ(shared_mappings(), mappings);
}

}  // namespace
}  // namespace weir::collectives
