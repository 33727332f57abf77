#include "cli/http_stream.hpp"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/errc.hpp"

namespace weir::cli {
namespace {

namespace beast = boost::beast;
namespace ssl = net::ssl;
using net::ip::tcp;

inline constexpr auto nothrow = net::as_tuple(net::use_awaitable);

/// Makes the handshake fail unless the other side proves to be `host`, a name or an IP address.
Result<void> expect_host(SSL* handle, const std::string& host) {
  boost::system::error_code no_address;
  net::ip::make_address(host, no_address);
  bool good = false;
  if (no_address) {
    good = SSL_set1_host(handle, host.c_str()) == 1 && SSL_set_tlsext_host_name(handle, host.c_str()) == 1;
  } else {
    good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(handle), host.c_str()) == 1;
  }
  if (good) return {};
  return Error{Errc::invalid_argument, "\"" + host + "\" is no name that a certificate can have"};
}

Error handshake_error(SSL* handle, const boost::system::error_code& code, const Place& place) {
  const long verified = SSL_get_verify_result(handle);
  const std::string where = place.authority();
  if (verified == X509_V_OK) return {Errc::peer_lost, "no TLS with " + where + ": " + code.message()};
  return {Errc::unauthenticated,
          where + " does not prove that it is that host: " + X509_verify_cert_error_string(verified) +
              ". If you know its authority, give that one's certificate with --cacert FILE"};
}

}  // namespace

Result<ssl::context> tls_context(const std::filesystem::path& cacert) {
  ssl::context context(ssl::context::tls_client);
  boost::system::error_code failed;
  if (SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION) != 1)
    return Error{Errc::internal, "this OpenSSL has no TLS 1.2"};
  context.set_verify_mode(ssl::verify_peer, failed);
  if (!failed && cacert.empty()) context.set_default_verify_paths(failed);
  if (!failed && !cacert.empty()) context.load_verify_file(cacert.string(), failed);
  if (failed) {
    const std::string what = cacert.empty() ? "the system's certificate authorities" : cacert.string();
    return Error{Errc::io, "cannot read certificates from " + what + ": " + failed.message()};
  }
  return context;
}

std::variant<HttpStream::Plain, HttpStream::Tls> HttpStream::make(net::any_io_executor executor, ssl::context* tls) {
  if (tls != nullptr) return Tls(std::move(executor), *tls);
  return Plain(std::move(executor));
}

HttpStream::Plain& HttpStream::socket() {
  if (auto* const tls = std::get_if<Tls>(&stream_)) return tls->next_layer();
  return std::get<Plain>(stream_);
}

net::awaitable<Result<void>> HttpStream::connect(const Place& place, std::chrono::milliseconds deadline) {
  auto* const tls = std::get_if<Tls>(&stream_);
  if (tls != nullptr) {
    if (auto expected = expect_host(tls->native_handle(), place.host); !expected) co_return expected.error();
  }
  tcp::resolver resolver(get_executor());
  auto [failed, found] = co_await resolver.async_resolve(place.host, place.port, nothrow);
  if (failed) co_return network_error(failed, place);
  expires_after(deadline);
  auto [code, endpoint] = co_await socket().async_connect(found, nothrow);
  // A head that does not accept the connection is unreachable, which is not the same as slow to answer.
  if (code == beast::error::timeout) co_return network_error(net::error::timed_out, place);
  if (code) co_return network_error(code, place);
  socket().socket().set_option(tcp::no_delay(true));
  if (tls == nullptr) co_return Result<void>();
  auto [broken] = co_await tls->async_handshake(ssl::stream_base::client, nothrow);
  if (broken == beast::error::timeout) co_return network_error(broken, place);
  if (broken) co_return handshake_error(tls->native_handle(), broken, place);
  co_return Result<void>();
}

Error network_error(const boost::system::error_code& code, const Place& place) {
  const std::string where = place.authority();
  if (code == beast::error::timeout)
    return {Errc::deadline_exceeded, "the head at " + where + " does not answer in time"};
  return {Errc::peer_lost, "no head answers at " + where + ": " + code.message() +
                               ". Start one with `weir up`, or say where it is with --address or WEIR_ADDRESS"};
}

}  // namespace weir::cli
