#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

#include "api/services.hpp"
#include "base/result.hpp"
#include "cluster/head.hpp"
#include "runtime/clock.hpp"

namespace weir::api {

/// The head's HTTP server: dashboard and API on one port. Owned by main, which stops it before the head. Each
/// connection has its own strand. Thread-safe.
class Server {
 public:
  struct Options {
    std::string listen = "127.0.0.1:8265";  ///< port 0 lets the system choose, see address()
    std::string token;                      ///< clients must prove that they know it
    std::vector<std::string> allow_hosts;   ///< more names this head answers to, "name" or "name:port"
    bool insecure = false;                  ///< may listen beyond loopback without TLS
    std::optional<PublicUrl> public_url;    ///< its address for browsers, behind a proxy
    std::filesystem::path sessions_file;    ///< keeps sessions beyond the end of this process; "": none
    std::string version;
    Limits limits;
  };

  /// Listens and begins to serve. `head` and `clock` must outlive the server.
  /// Fails with: invalid_argument (no token, or an address that check_listen() refuses), io (address in use).
  static Result<std::unique_ptr<Server>> start(Options options, cluster::Head& head, net::any_io_executor executor,
                                               runtime::Clock& clock);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Closes the listener and every connection, and waits for the last handler. Must be awaited before destruction.
  net::awaitable<void> stop();

  /// The server's address for clients on this machine, such as "127.0.0.1:8265": with the port really in use, and
  /// loopback if it listens on every address.
  const std::string& address() const;

  /// A link that opens the dashboard, once, within the hour. Every call makes a new one.
  std::string login_link();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::api
