#include "collectives/transports/socket_stream.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

/// Of a piece that is under way, so much is let arrive before anybody is woken for it: a full packet of the kernel.
constexpr std::size_t wake_max = std::size_t{64} << 10;

/// What an unsuccessful call means: 0 bytes, if it may succeed later.
Result<std::size_t> failed(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  const boost::system::error_code code(errno, boost::system::system_category());
  return Error{Errc::peer_lost, std::string(what) + ": " + code.message()};
}

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

Result<std::size_t> SocketStream::write(std::span<const iovec> parts) {
  const msghdr message = message_of(parts);
  const ssize_t written = ::sendmsg(*socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0) return failed("write");
  return static_cast<std::size_t>(written);
}

Result<std::size_t> SocketStream::read(std::span<const iovec> parts) {
  msghdr message = message_of(parts);
  const ssize_t got = ::recvmsg(*socket_, &message, MSG_DONTWAIT);
  if (got == 0) return Error{Errc::peer_lost, "closed the connection"};
  if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return failed("read");
  const std::size_t filled = got < 0 ? 0 : static_cast<std::size_t>(got);
  const std::size_t wanted = parts.front().iov_len;
  wake_at(filled < wanted ? std::min(wanted - filled, wake_max) : 1);
  return filled;
}

void SocketStream::wake_at(std::size_t bytes) {
  if (bytes == wakes_at_) return;
  const int value = static_cast<int>(bytes);
  if (::setsockopt(*socket_, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value) == 0) wakes_at_ = bytes;
}

Readiness SocketStream::readiness(std::uint32_t events) {
  return {.readable = (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
          .writable = (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0,
          .hung_up = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0};
}

/// Keep-alive does not help while bytes are under way, and TCP_USER_TIMEOUT ends connections to a peer, too, that has
/// no room because it computes.
bool SocketStream::is_unanswered() const {
  constexpr unsigned sent_again_max = 5;  // after 0.2 s, 0.4 s more, ...: the sixth time after about 13 s
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(*socket_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_retransmits > sent_again_max;
}

std::optional<LineUse> SocketStream::line_use() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  constexpr std::size_t needed = offsetof(tcp_info, tcpi_sndbuf_limited) + sizeof info.tcpi_sndbuf_limited;
  if (::getsockopt(*socket_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < needed) return std::nullopt;
  const std::uint64_t others = info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited;
  const std::uint64_t busy = info.tcpi_busy_time > others ? info.tcpi_busy_time - others : 0;
  return LineUse{.bytes = info.tcpi_bytes_acked, .busy = std::chrono::microseconds(busy)};
}

void SocketStream::end_writing() { ::shutdown(*socket_, SHUT_WR); }

std::size_t SocketStream::queued_bytes() const {
  int bytes = 0;
  return ::ioctl(*socket_, SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace weir::collectives
