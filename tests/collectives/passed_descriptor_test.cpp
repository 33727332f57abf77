#include "collectives/transports/passed_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <vector>

namespace weir::collectives {
namespace {

struct Sockets {
  Sockets() {
    std::array<int, 2> both{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()), 0);
    own = Descriptor(both[0]);
    other = Descriptor(both[1]);
  }
  Descriptor own;
  Descriptor other;
};

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

Descriptor file() { return Descriptor(::memfd_create("test", MFD_CLOEXEC)); }

/// Sends a byte with control data of this type, as a peer may that does not keep to pass_descriptor().
template <typename T>
void send_beside(int socket, int type, const std::vector<T>& data) {
  char byte = 0;
  iovec part{&byte, 1};
  const std::size_t bytes = data.size() * sizeof(T);
  alignas(cmsghdr) std::array<char, 256> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), data.data(), bytes);
  ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), 1) << std::strerror(errno);
}

TEST(PassedDescriptor, ArrivesAsAnotherOfTheSameFile) {
  const Sockets sockets;
  const Descriptor sent = file();
  ASSERT_TRUE(pass_descriptor(*sockets.own, *sent));
  const Descriptor taken = take_descriptor(*sockets.other);
  ASSERT_TRUE(taken);
  EXPECT_NE(*taken, *sent);
  struct stat one {};
  struct stat another {};
  ASSERT_EQ(::fstat(*sent, &one), 0);
  ASSERT_EQ(::fstat(*taken, &another), 0);
  EXPECT_EQ(one.st_ino, another.st_ino);
  EXPECT_NE(::fcntl(*taken, F_GETFD) & FD_CLOEXEC, 0) << "a program that this one starts would have it, too";
}

TEST(PassedDescriptor, OfSeveralAllButTheFirstAreClosed) {
  for (const std::size_t count : {2U, 3U, 20U}) {
    const Sockets sockets;
    const Descriptor sent = file();
    const auto before = open_files();
    send_beside(*sockets.own, SCM_RIGHTS, std::vector<int>(count, *sent));
    {
      const Descriptor taken = take_descriptor(*sockets.other);
      EXPECT_TRUE(taken);
      EXPECT_EQ(open_files(), before + 1) << count;
    }
    EXPECT_EQ(open_files(), before) << count;
  }
}

TEST(PassedDescriptor, ThereIsNoneWithoutOne) {
  const Sockets sockets;
  EXPECT_FALSE(take_descriptor(*sockets.other)) << "nothing has come";
  ASSERT_EQ(::send(*sockets.own, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_FALSE(take_descriptor(*sockets.other)) << "a byte alone";
  const int on = 1;
  ASSERT_EQ(::setsockopt(*sockets.other, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
  send_beside(*sockets.own, SCM_CREDENTIALS, std::vector<ucred>{{::getpid(), ::getuid(), ::getgid()}});
  EXPECT_FALSE(take_descriptor(*sockets.other)) << "something else beside the byte";
  ::shutdown(*sockets.own, SHUT_RDWR);
  EXPECT_FALSE(take_descriptor(*sockets.other)) << "the other side has left";
}

TEST(PassedDescriptor, IsNotPassedToNobody) {
  Sockets sockets;
  const Descriptor sent = file();
  sockets.other = Descriptor();
  EXPECT_FALSE(pass_descriptor(*sockets.own, *sent));
}

}  // namespace
}  // namespace weir::collectives
