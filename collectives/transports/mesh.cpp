#include "collectives/transports/mesh.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "base/descriptor.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/transports/handshake.hpp"
#include "collectives/transports/paced_stream.hpp"
#include "collectives/transports/passed_descriptor.hpp"
#include "collectives/transports/shared_memory.hpp"
#include "collectives/transports/socket_stream.hpp"
#include "collectives/transports/stream_communicator.hpp"

namespace weir::collectives {
namespace {

using local = net::local::stream_protocol;
using net::ip::tcp;
using std::chrono::milliseconds;

inline constexpr auto nothrow = net::as_tuple(net::use_awaitable);

constexpr milliseconds handshake_limit{5000};  ///< for one connection: a silent stranger holds its place no longer
constexpr milliseconds call_again_after{50};
constexpr std::uint32_t ranks_max = 1 << 16;
constexpr std::size_t unproved_max = 256;  ///< callers in their handshake at once; a further one displaces the oldest

/// A rank's rings to all others of its host, in one lane and one direction, take about so much memory, ...
constexpr std::size_t shared_bytes = 4 << 20;
/// ... but each of them is no longer than needed to keep both sides busy, and no shorter than bells are worth.
constexpr std::size_t ring_bytes_max = 512 * 1024;
constexpr std::size_t ring_bytes_min = 64 * 1024;

std::size_t ring_bytes(std::uint32_t ranks) {
  return std::clamp(std::bit_floor(shared_bytes / ranks), ring_bytes_min, ring_bytes_max);
}

/// Of what is on its way between two ranks of one host: it should still be in the processor's cache when it is read.
/// What the kernel lets it grow to, some MiB, is not.
constexpr int send_buffer_within_one_host = 128 * 1024;

/// Whether both ends of a connection have the same address: then they are of one host.
bool within_one_host(int fd) {
  tcp::endpoint here;
  tcp::endpoint there;
  auto here_bytes = static_cast<socklen_t>(here.capacity());
  auto there_bytes = static_cast<socklen_t>(there.capacity());
  return ::getsockname(fd, here.data(), &here_bytes) == 0 && ::getpeername(fd, there.data(), &there_bytes) == 0 &&
         here.address() == there.address();
}

/// Turns Nagle's algorithm off, since latency counts more than header bytes, and keep-alive on, since a host that
/// vanishes silently must not be waited for forever (Stream::is_unanswered() is for when bytes are under way). Between
/// hosts buffer sizes are left to the kernel: setting one turns its auto-tuning off for good.
void tune(int fd) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (within_one_host(fd)) set(SOL_SOCKET, SO_SNDBUF, send_buffer_within_one_host);
}

/// Closes a socket at a deadline, unless destroyed before.
class ClosingTimer {
 public:
  ClosingTimer(std::shared_ptr<Socket> socket, milliseconds after) : timer_(socket->get_executor(), after) {
    timer_.async_wait([socket = std::move(socket)](boost::system::error_code stopped) {
      boost::system::error_code ignored;
      if (!stopped) socket->close(ignored);
    });
  }

 private:
  net::steady_timer timer_;
};

/// For each rank, the first rank with the same address.
std::vector<std::uint32_t> hosts_of(const std::vector<Peer>& peers) {
  std::vector<std::uint32_t> hosts;
  for (const Peer& peer : peers) {
    hosts.push_back(static_cast<std::uint32_t>(std::ranges::find(peers, peer.host, &Peer::host) - peers.begin()));
  }
  return hosts;
}

void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

/// The coroutines of `join` run on the joining thread, in `io_`, and end with it: one with a reason to finish stops the
/// loop.
class GradientPort final : public Mesh {
 public:
  GradientPort() : acceptor_(io_), local_acceptor_(io_), deadline_(io_) {}

  Result<void> open(const std::string& host, std::uint16_t port) {
    boost::system::error_code code;
    const auto address = net::ip::make_address(host, code);
    if (code) return Error{Errc::invalid_argument, "\"" + host + "\" is no IP address to listen on"};
    const tcp::endpoint endpoint(address, port);
    if (!code) acceptor_.open(endpoint.protocol(), code);
    if (!code && port != 0) acceptor_.set_option(tcp::acceptor::reuse_address(true), code);  // closed ones may linger
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(net::socket_base::max_listen_connections, code);
    if (code) return Error{Errc::io, "cannot listen on " + host + ": " + code.message()};
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  std::uint16_t port() const override { return port_; }

  Result<std::unique_ptr<Fabric>> join(const Group& group, const std::vector<Peer>& peers,
                                       milliseconds deadline) override {
    if (peers.size() != group.size || group.rank >= group.size) {
      return Error{Errc::invalid_argument, "a group of " + std::to_string(group.size) + " ranks with " +
                                               std::to_string(peers.size()) + " addresses"};
    }
    if (group.size > ranks_max) {
      return Error{Errc::invalid_argument,
                   "a group of " + std::to_string(group.size) + " ranks: frames name " + std::to_string(ranks_max)};
    }
    ensure(lanes_.empty(), "a mesh is joined once");
    group_ = group;
    peers_ = peers;
    if (group.bytes_per_second > 0) pace_ = std::make_shared<Pace>(group.bytes_per_second);
    lanes_.resize(group.lanes);
    for (auto& lane : lanes_) lane.resize(group.size);
    try {
      if (group.size > 1) form(deadline);
    } catch (const std::exception& e) {
      return Error{Errc::internal, std::string("joining the group: ") + e.what()};
    }
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    local_acceptor_.close(ignored);
    std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const Member member{.rank = group.rank, .attempt = group.attempt, .loss = group.loss, .hosts = hosts_of(peers)};
    return stream_fabric(member, std::move(lanes_));
  }

  void abort(Error cause) override { finish(std::move(cause)); }

 private:
  void form(milliseconds deadline) {
    deadline_.expires_after(deadline);
    deadline_.async_wait([this](boost::system::error_code stopped) {
      if (!stopped) finish(late());
    });
    if (group_.shared_memory) listen_locally();
    net::co_spawn(io_, accept_callers(acceptor_, &GradientPort::admit_caller), rethrow);
    for (std::uint32_t lane = 0; lane < group_.lanes; ++lane) {
      for (std::uint32_t r = 0; r < group_.rank; ++r) net::co_spawn(io_, call({r, lane}), rethrow);
    }
    io_.run();  // returns at once if `abort` came before
  }

  /// Without a local socket all callers are served over TCP.
  void listen_locally() {
    boost::system::error_code code;
    local_acceptor_.open(local(), code);
    if (!code) local_acceptor_.bind(local::endpoint(local_name(group_, group_.rank, port_)), code);
    if (!code) local_acceptor_.listen(net::socket_base::max_listen_connections, code);
    if (code) {
      local_acceptor_.close(code);
      return;
    }
    net::co_spawn(io_, accept_callers(local_acceptor_, &GradientPort::admit_local_caller), rethrow);
  }

  template <class Acceptor>
  net::awaitable<void> accept_callers(Acceptor& acceptor,
                                      net::awaitable<void> (GradientPort::*admit)(std::shared_ptr<Socket>)) {
    while (true) {
      auto [code, socket] = co_await acceptor.async_accept(nothrow);
      if (code == net::error::operation_aborted) co_return;
      if (code) {  // no descriptor is free, say
        last_refusal_ = Error{Errc::exhausted, "taking a connection: " + code.message()};
        net::steady_timer pause(io_, call_again_after);
        co_await pause.async_wait(nothrow);
        continue;
      }
      if (unproved_.size() >= unproved_max) drop_oldest_caller();
      unproved_.push_back(std::make_shared<Socket>(std::move(socket)));
      net::co_spawn(io_, (this->*admit)(unproved_.back()), rethrow);
    }
  }

  /// A rank that calls must not wait behind strangers that say nothing.
  void drop_oldest_caller() {
    boost::system::error_code ignored;
    unproved_.front()->close(ignored);
    unproved_.pop_front();
  }

  net::awaitable<void> admit_caller(std::shared_ptr<Socket> socket) {
    const bool local_wanted = local_acceptor_.is_open() && within_one_host(socket->native_handle());
    ClosingTimer limit(socket, handshake_limit);
    auto caller = co_await admit(*socket, group_, local_wanted);
    std::erase(unproved_, socket);
    if (!caller) {
      last_refusal_ = caller.error();
    } else if (caller->reception == Reception::welcome) {
      keep_tcp(caller->end, *socket);
    }
  }

  net::awaitable<void> admit_local_caller(std::shared_ptr<Socket> socket) {
    ClosingTimer limit(socket, handshake_limit);
    auto caller = co_await admit(*socket, group_, false);
    std::erase(unproved_, socket);
    if (caller) co_await socket->async_wait(Socket::wait_read, nothrow);
    if (!caller) {
      last_refusal_ = caller.error();
      co_return;
    }
    auto memory = SharedMemory::open(take_descriptor(socket->native_handle()));
    if (memory) {
      keep_shared(caller->end, *socket, std::move(*memory), SharedMemoryStream::Side::other);
    } else {
      last_refusal_ = memory.error();
    }
  }

  net::awaitable<void> call(End peer) {
    const std::uint32_t rank = peer.rank;
    boost::system::error_code bad_address;
    const tcp::endpoint endpoint(net::ip::make_address(peers_[rank].host, bad_address), peers_[rank].port);
    if (bad_address) {
      finish({Errc::invalid_argument, "rank " + std::to_string(rank) + " has no usable address: " + peers_[rank].host});
      co_return;
    }
    bool tcp_only = !group_.shared_memory;
    while (true) {
      auto received = co_await call_at(Socket::endpoint_type(endpoint), peer, tcp_only);
      if (received == Reception::welcome) co_return;
      if (received) {
        received = co_await call_at(Socket::endpoint_type(local::endpoint(local_name(group_, rank, peers_[rank].port))),
                                    peer, false);
        if (received) co_return;
        tcp_only = true;  // it does not work that way
      }
      if (received.error().code != Errc::peer_lost) {
        finish(received.error().within("rank " + std::to_string(rank) + " at " + peers_[rank].host + ":" +
                                       std::to_string(peers_[rank].port)));
        co_return;
      }
      last_refusal_ = received.error();
      net::steady_timer pause(io_, call_again_after);
      co_await pause.async_wait(nothrow);
    }
  }

  /// Calls a rank once, and keeps the connection if it is welcome. Fails as `greet` does, with peer_lost wherever
  /// calling again may help.
  net::awaitable<Result<Reception>> call_at(Socket::endpoint_type endpoint, End peer, bool tcp_only) {
    const bool locally = endpoint.protocol().family() == AF_UNIX;
    auto socket = std::make_shared<Socket>(io_);
    ClosingTimer limit(socket, handshake_limit);
    auto [code] = co_await socket->async_connect(endpoint, nothrow);
    if (code) co_return Error{Errc::peer_lost, "calling rank " + std::to_string(peer.rank) + ": " + code.message()};
    auto received = co_await greet(*socket, group_, peer, tcp_only);
    if (received != Reception::welcome) co_return received;
    if (!locally) {
      keep_tcp(peer, *socket);
      co_return received;
    }
    auto memory = SharedMemory::create(ring_bytes(group_.size));
    if (!memory || !pass_descriptor(socket->native_handle(), memory->descriptor())) {
      co_return Error{Errc::peer_lost, "no memory to share with rank " + std::to_string(peer.rank)};
    }
    keep_shared(peer, *socket, std::move(*memory), SharedMemoryStream::Side::creator);
    co_return received;
  }

  void keep_tcp(const End& peer, Socket& socket) {
    tune(socket.native_handle());
    keep(peer, std::make_unique<SocketStream>(released(socket)));
  }

  void keep_shared(const End& peer, Socket& socket, SharedMemory memory, SharedMemoryStream::Side side) {
    keep(peer, std::make_unique<SharedMemoryStream>(released(socket), std::move(memory), side));
  }

  static Descriptor released(Socket& socket) {
    Descriptor descriptor(socket.release());
    ::fcntl(*descriptor, F_SETFL, ::fcntl(*descriptor, F_GETFL) | O_NONBLOCK);
    return descriptor;
  }

  /// A caller that never saw our verdict calls again; its newer connection replaces the older one.
  void keep(const End& peer, std::unique_ptr<Stream> stream) {
    if (pace_) stream = std::make_unique<PacedStream>(std::move(stream), pace_);
    lanes_[peer.lane][peer.rank] = std::move(stream);
    if (missing().empty()) io_.stop();
  }

  void finish(Error cause) {
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(cause);
    }
    io_.stop();
  }

  /// The ranks to which not all lanes are connected.
  std::vector<std::uint32_t> missing() const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t r = 0; r < group_.size; ++r) {
      const bool all = std::ranges::all_of(lanes_, [r](const auto& lane) { return lane[r] != nullptr; });
      if (r != group_.rank && !all) ranks.push_back(r);
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
  std::shared_ptr<Pace> pace_;  ///< if the rate is limited
  std::optional<Error> last_refusal_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::optional<Error> failure_;

  net::io_context io_{1};
  tcp::acceptor acceptor_;
  local::acceptor local_acceptor_;
  net::steady_timer deadline_;
  std::deque<std::shared_ptr<Socket>> unproved_;             ///< callers in their handshake, the oldest first
  std::vector<std::vector<std::unique_ptr<Stream>>> lanes_;  ///< by lane and rank; authenticated ones only
};

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::bind(const std::string& host, std::uint16_t port) {
  auto mesh = std::make_unique<GradientPort>();
  if (auto opened = mesh->open(host, port); !opened) return opened.error();
  return std::unique_ptr<Mesh>(std::move(mesh));
}

}  // namespace weir::collectives
