#include "api/server.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>

#include "api/connection.hpp"
#include "api/openapi.hpp"
#include "base/errc.hpp"
#include "runtime/task_group.hpp"

namespace weir::api {
namespace {

using boost::system::error_code;
using net::ip::tcp;
using runtime::nothrow;

/// Connections beyond the limit that may still ask for the head's health.
constexpr std::size_t health_connections_max = 64;

/// What answers under way get to be finished when the server stops.
constexpr auto stop_grace = std::chrono::milliseconds(500);

/// Keeps the count of open connections right however a connection ends.
class Counted {
 public:
  explicit Counted(std::atomic<std::uint64_t>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::uint64_t>& count_;
};

/// The connection runs on its own strand; the group that awaits it has another.
net::awaitable<void> serve_counted(tcp::socket socket, Services& services, bool only_health) {
  const Counted counted(services.traffic.connections);
  const auto strand = socket.get_executor();
  auto serving = serve(std::move(socket), services, only_health);
  co_await net::co_spawn(strand, std::move(serving), net::use_awaitable);
}

/// All that a client gets when there is not even room to read its request.
void turn_away(tcp::socket socket) {
  static constexpr std::string_view answer =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(net::buffer(answer), ignored);
}

std::string reachable(const tcp::endpoint& endpoint) {
  if (endpoint.address().is_unspecified()) return "127.0.0.1:" + std::to_string(endpoint.port());
  const auto host = endpoint.address().to_string();
  const auto port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

}  // namespace

class Server::Impl {
 public:
  Impl(Options options, const ListenAddress& listen, cluster::Head& head, tcp::acceptor acceptor,
       net::any_io_executor executor, runtime::Clock& clock)
      : clock_(clock),
        executor_(std::move(executor)),
        acceptor_(std::move(acceptor)),
        endpoint_(acceptor_.local_endpoint()),
        address_(reachable(endpoint_)),
        tasks_(acceptor_.get_executor(), "http"),
        services_{.head = head,
                  .access = Access({.token = options.token,
                                    .port = endpoint_.port(),
                                    .loopback_only = listen.loopback,
                                    .allow_hosts = options.allow_hosts}),
                  .limits = options.limits,
                  .version = options.version,
                  .insecure = !listen.loopback,
                  .openapi = openapi_document(options.version),
                  .started_at = std::chrono::floor<std::chrono::milliseconds>(clock.wall()),
                  .blocking = disk_.get_executor(),
                  .stopping = false,
                  .traffic = {}} {}

  ~Impl() { disk_.join(); }

  void begin() {
    net::post(acceptor_.get_executor(), [this] { tasks_.spawn("accept", accept()); });
  }

  net::awaitable<void> stop() {
    auto stopping = stop_on_strand();
    co_await net::co_spawn(acceptor_.get_executor(), std::move(stopping), net::use_awaitable);
  }

  const std::string& address() const { return address_; }

  std::string login_link() { return "http://" + address_ + "/login?code=" + services_.access.make_code(); }

 private:
  net::awaitable<void> accept() {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(net::make_strand(executor_), nothrow);
      if (error == net::error::operation_aborted) co_return;
      if (error) {
        // Out of file descriptors, most likely: those in use have to end first.
        spdlog::warn("http: cannot accept: {}", error.message());
        if (!co_await clock_.sleep_for(std::chrono::milliseconds(100))) co_return;
        continue;
      }
      const auto open = services_.traffic.connections.load();
      const auto full = services_.limits.connections_max;
      if (open >= full + health_connections_max)
        turn_away(std::move(socket));
      else
        tasks_.spawn("connection", serve_counted(std::move(socket), services_, open >= full));
    }
  }

  net::awaitable<void> stop_on_strand() {
    error_code ignored;
    acceptor_.close(ignored);
    services_.stopping = true;
    co_await tasks_.stop(clock_, stop_grace);
  }

  runtime::Clock& clock_;
  net::any_io_executor executor_;
  tcp::acceptor acceptor_;  ///< on a strand, which the task group shares
  tcp::endpoint endpoint_;
  std::string address_;
  runtime::TaskGroup tasks_;
  net::thread_pool disk_{1};
  Services services_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(Options options, cluster::Head& head, net::any_io_executor executor,
                                              runtime::Clock& clock) {
  if (options.token.empty()) return Error{Errc::invalid_argument, "the HTTP server needs a token"};
  const auto listen = check_listen(options.listen, options.insecure);
  if (!listen) return listen.error();
  tcp::acceptor acceptor(net::make_strand(executor));
  const tcp::endpoint endpoint(net::ip::make_address(listen->host), listen->port);
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
  if (ec) return Error{Errc::io, "cannot listen on " + options.listen + ": " + ec.message()};
  auto impl = std::make_unique<Impl>(std::move(options), *listen, head, std::move(acceptor), executor, clock);
  impl->begin();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

net::awaitable<void> Server::stop() { return impl_->stop(); }
const std::string& Server::address() const { return impl_->address(); }
std::string Server::login_link() { return impl_->login_link(); }

}  // namespace weir::api
