#include "api/server.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>

#include "api/connection.hpp"
#include "api/openapi.hpp"
#include "base/errc.hpp"
#include "runtime/on.hpp"
#include "runtime/task_group.hpp"

namespace weir::api {
namespace {

using boost::system::error_code;
using net::ip::tcp;
using runtime::nothrow;

/// The time for unfinished answers to finish when the server stops.
constexpr auto stop_grace = std::chrono::milliseconds(500);

/// Runs the connection on its own strand; the task group that awaits it has another.
net::awaitable<void> serve_on_strand(tcp::socket socket, Services& services) {
  const auto strand = socket.get_executor();
  auto serving = serve(std::move(socket), services);
  co_await runtime::on(strand, std::move(serving));
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
                                    .allow_hosts = options.allow_hosts,
                                    .public_url = options.public_url,
                                    .sessions_file = options.sessions_file}),
                  .limits = options.limits,
                  .version = options.version,
                  .insecure = !listen.loopback,
                  .openapi = openapi_document(options.version),
                  .started_at = std::chrono::floor<std::chrono::milliseconds>(clock.wall()),
                  .blocking = disk_.get_executor(),
                  .stopping = false,
                  .traffic = {},
                  .connections = {options.limits.strangers_max, options.limits.clients_max}} {}

  ~Impl() { disk_.join(); }

  void begin() {
    if (const auto loaded = services_.access.sessions().load(); !loaded)
      spdlog::warn("http: browsers must log in anew: {}", loaded.error().message());
    net::post(acceptor_.get_executor(), [this] { tasks_.spawn("accept", accept()); });
  }

  net::awaitable<void> stop() {
    auto stopping = stop_on_strand();
    co_await runtime::on(acceptor_.get_executor(), std::move(stopping));
  }

  const std::string& address() const { return address_; }

  std::string login_link() { return services_.access.login_link(address_); }

 private:
  net::awaitable<void> accept() {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(net::make_strand(executor_), nothrow);
      if (error == net::error::operation_aborted) co_return;
      if (error) {
        // Most likely out of file descriptors: make room by dropping a stranger.
        spdlog::warn("http: cannot accept: {}", error.message());
        services_.connections.drop_stranger();
        if (!co_await clock_.sleep_for(std::chrono::milliseconds(10))) co_return;
        continue;
      }
      tasks_.spawn("connection", serve_on_strand(std::move(socket), services_));
    }
  }

  net::awaitable<void> stop_on_strand() {
    error_code ignored;
    acceptor_.close(ignored);
    services_.stopping = true;
    services_.connections.end_all_soon();
    const auto insist = clock_.set_timer(acceptor_.get_executor(), clock_.now() + stop_grace,
                                         [this] { services_.connections.drop_all(); });
    co_await tasks_.join();
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
