#include "collectives/tcp_mesh.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <mutex>
#include <optional>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/tcp_communicator.hpp"
#include "collectives/tcp_handshake.hpp"

namespace weir::collectives {
namespace {

using net::ip::tcp;
using std::chrono::milliseconds;

inline constexpr auto nothrow = net::as_tuple(net::use_awaitable);

constexpr milliseconds handshake_limit{5000};  ///< for one connection: a silent stranger holds its place no longer
constexpr milliseconds call_again_after{50};
constexpr std::size_t unproved_max = 256;  ///< callers in their handshake at once; more are turned away

/// Turns Nagle's algorithm off, since latency counts more than header bytes, and keep-alive on, since a host that
/// vanishes silently must not be waited for forever. Buffer sizes are left to the kernel: setting one turns its
/// auto-tuning off for good.
void tune(int fd) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/// Closes a socket at a deadline, unless destroyed before.
class ClosingTimer {
 public:
  ClosingTimer(std::shared_ptr<tcp::socket> socket, milliseconds after) : timer_(socket->get_executor(), after) {
    timer_.async_wait([socket = std::move(socket)](boost::system::error_code stopped) {
      boost::system::error_code ignored;
      if (!stopped) socket->close(ignored);
    });
  }

 private:
  net::steady_timer timer_;
};

void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

/// The coroutines of `join` run on the joining thread, in `io_`, and end with it: one with a reason to finish stops the
/// loop.
class Mesh final : public TcpMesh {
 public:
  Mesh() : acceptor_(io_), deadline_(io_) {}

  Result<void> open(const std::string& host, std::uint16_t port) {
    boost::system::error_code code;
    const auto address = net::ip::make_address(host, code);
    if (code) return Error{Errc::invalid_argument, "\"" + host + "\" is no IP address to listen on"};
    const tcp::endpoint endpoint(address, port);
    if (!code) acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(net::socket_base::max_listen_connections, code);
    if (code) return Error{Errc::io, "cannot listen on " + host + ": " + code.message()};
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  std::uint16_t port() const override { return port_; }

  Result<std::unique_ptr<Communicator>> join(const Group& group, const std::vector<Peer>& peers,
                                             milliseconds deadline) override {
    if (peers.size() != group.size || group.rank >= group.size) {
      return Error{Errc::invalid_argument, "a group of " + std::to_string(group.size) + " ranks with " +
                                               std::to_string(peers.size()) + " addresses"};
    }
    ensure(sockets_.empty(), "a mesh is joined once");
    group_ = group;
    peers_ = peers;
    sockets_.resize(group.size);
    try {
      if (group.size > 1) form(deadline);
    } catch (const std::exception& e) {
      return Error{Errc::internal, std::string("joining the group: ") + e.what()};
    }
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    std::vector<Descriptor> descriptors(group.size);
    for (std::uint32_t r = 0; r < group.size; ++r) {
      if (r == group.rank) continue;
      descriptors[r] = Descriptor(sockets_[r]->release());
      tune(*descriptors[r]);
    }
    return tcp_communicator(group.rank, group.attempt, std::move(descriptors));
  }

  void abort(Error cause) override { finish(std::move(cause)); }

 private:
  void form(milliseconds deadline) {
    deadline_.expires_after(deadline);
    deadline_.async_wait([this](boost::system::error_code stopped) {
      if (!stopped) finish(late());
    });
    net::co_spawn(io_, accept_callers(), rethrow);
    for (std::uint32_t r = 0; r < group_.rank; ++r) net::co_spawn(io_, call(r), rethrow);
    io_.run();  // returns at once if `abort` came before
  }

  net::awaitable<void> accept_callers() {
    while (true) {
      auto [code, socket] = co_await acceptor_.async_accept(nothrow);
      if (code == net::error::operation_aborted) co_return;
      if (code || unproved_ >= unproved_max) continue;
      ++unproved_;
      net::co_spawn(io_, admit_caller(std::move(socket)), rethrow);
    }
  }

  net::awaitable<void> admit_caller(tcp::socket accepted) {
    auto socket = std::make_shared<tcp::socket>(std::move(accepted));
    ClosingTimer limit(socket, handshake_limit);
    auto rank = co_await admit(*socket, group_);
    --unproved_;
    if (rank) {
      keep(*rank, std::move(*socket));
    } else {
      last_refusal_ = rank.error();
    }
  }

  net::awaitable<void> call(std::uint32_t rank) {
    boost::system::error_code bad_address;
    const tcp::endpoint endpoint(net::ip::make_address(peers_[rank].host, bad_address), peers_[rank].port);
    if (bad_address) {
      finish({Errc::invalid_argument, "rank " + std::to_string(rank) + " has no usable address: " + peers_[rank].host});
      co_return;
    }
    while (true) {
      auto socket = std::make_shared<tcp::socket>(io_);
      ClosingTimer limit(socket, handshake_limit);
      auto [code] = co_await socket->async_connect(endpoint, nothrow);
      if (!code) {
        auto greeted = co_await greet(*socket, group_, rank);
        if (greeted) {
          keep(rank, std::move(*socket));
          co_return;
        }
        if (greeted.error().code != Errc::peer_lost) {
          finish(greeted.error().within("rank " + std::to_string(rank) + " at " + peers_[rank].host + ":" +
                                        std::to_string(peers_[rank].port)));
          co_return;
        }
        last_refusal_ = greeted.error();
      } else {
        last_refusal_ = Error{Errc::io, "calling rank " + std::to_string(rank) + ": " + code.message()};
      }
      net::steady_timer pause(io_, call_again_after);
      co_await pause.async_wait(nothrow);
    }
  }

  /// A caller that never saw our verdict calls again; its newer connection replaces the older one.
  void keep(std::uint32_t rank, tcp::socket socket) {
    sockets_[rank].emplace(std::move(socket));
    if (missing().empty()) io_.stop();
  }

  void finish(Error cause) {
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(cause);
    }
    io_.stop();
  }

  std::vector<std::uint32_t> missing() const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t r = 0; r < group_.size; ++r) {
      if (r != group_.rank && !sockets_[r]) ranks.push_back(r);
    }
    return ranks;
  }

  Error late() const {
    std::string who;
    for (std::uint32_t r : missing()) who += (who.empty() ? "" : ", ") + std::to_string(r);
    std::string context = "not connected with rank(s) " + who;
    if (last_refusal_) context += "; the last attempt: " + last_refusal_->message();
    return {Errc::deadline_exceeded, context};
  }

  Group group_;
  std::vector<Peer> peers_;
  std::optional<Error> last_refusal_;
  std::size_t unproved_ = 0;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::optional<Error> failure_;

  net::io_context io_{1};
  tcp::acceptor acceptor_;
  net::steady_timer deadline_;
  std::vector<std::optional<tcp::socket>> sockets_;  // by rank; authenticated ones only
};

}  // namespace

Result<std::unique_ptr<TcpMesh>> TcpMesh::bind(const std::string& host, std::uint16_t port) {
  auto mesh = std::make_unique<Mesh>();
  if (auto opened = mesh->open(host, port); !opened) return opened.error();
  return std::unique_ptr<TcpMesh>(std::move(mesh));
}

}  // namespace weir::collectives
