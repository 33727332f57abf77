#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>

#include "base/result.hpp"
#include "cli/place.hpp"

namespace weir::cli {

namespace net = boost::asio;

/// The TLS settings of `weir` as an https client: TLS 1.2 or newer; trusts certificates under the authorities in
/// `cacert`, or under the system's if that is "". Fails with: io (the file cannot be read as certificates).
Result<net::ssl::context> tls_context(const std::filesystem::path& cacert);

/// A connection to a head, plain or over TLS: a stream for Beast's HTTP functions. Used by one coroutine at a time.
class HttpStream {
 public:
  using executor_type = net::any_io_executor;

  /// With `tls`, which must outlive the stream, everything goes over TLS.
  HttpStream(net::any_io_executor executor, net::ssl::context* tls) : stream_(make(std::move(executor), tls)) {}

  /// Connects; with TLS, the other side must also prove to be the place's host, by a certificate that the context
  /// trusts, before anything is sent to it. Fails with: peer_lost (the connection is not accepted in time),
  /// deadline_exceeded (the handshake), unauthenticated (the certificate), invalid_argument (a host that no certificate
  /// can name).
  net::awaitable<Result<void>> connect(const Place& place, std::chrono::milliseconds deadline);

  /// Sets the time limit for all operations that follow, until it is set again.
  void expires_after(std::chrono::milliseconds time) { socket().expires_after(time); }

  executor_type get_executor() { return socket().get_executor(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return net::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& into) {
          std::visit([&](auto& stream) { stream.async_read_some(into, std::move(handler)); }, stream_);
        },
        token, buffers);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return net::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          std::visit([&](auto& stream) { stream.async_write_some(from, std::move(handler)); }, stream_);
        },
        token, buffers);
  }

 private:
  using Plain = boost::beast::tcp_stream;
  using Tls = net::ssl::stream<Plain>;

  static std::variant<Plain, Tls> make(net::any_io_executor executor, net::ssl::context* tls);
  Plain& socket();

  std::variant<Plain, Tls> stream_;
};

/// The error for a place that does not answer, or not in time. Kinds: deadline_exceeded, peer_lost.
Error network_error(const boost::system::error_code& code, const Place& place);

}  // namespace weir::cli
