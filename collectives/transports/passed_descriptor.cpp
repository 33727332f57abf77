#include "collectives/transports/passed_descriptor.hpp"

#include <sys/socket.h>

#include <array>
#include <cstring>

namespace weir::collectives {
namespace {

/// A message of one byte, and of one descriptor beside it.
class Message {
 public:
  Message() {
    header_.msg_iov = &part_;
    header_.msg_iovlen = 1;
    header_.msg_control = control_.data();
    // Not CMSG_SPACE, which may have room for a second one: the kernel closes those that there is no room for.
    header_.msg_controllen = CMSG_LEN(sizeof(int));
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  msghdr& header() { return header_; }

 private:
  char byte_ = 0;
  iovec part_{&byte_, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
  msghdr header_{};
};

}  // namespace

bool pass_descriptor(int socket, int descriptor) {
  Message message;
  cmsghdr* const beside = CMSG_FIRSTHDR(&message.header());
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(beside), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message.header(), MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

Descriptor take_descriptor(int socket) {
  Message message;
  if (::recvmsg(socket, &message.header(), MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1) return {};
  const cmsghdr* const beside = CMSG_FIRSTHDR(&message.header());
  if (beside == nullptr || beside->cmsg_level != SOL_SOCKET || beside->cmsg_type != SCM_RIGHTS) return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(beside), sizeof descriptor);
  return Descriptor(descriptor);
}

}  // namespace weir::collectives
