#include "api/connection.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <memory>

#include "api/authority.hpp"
#include "api/connection_table.hpp"
#include "api/message.hpp"
#include "api/problem.hpp"
#include "api/router.hpp"
#include "api/secret.hpp"
#include "api/services.hpp"
#include "runtime/asio.hpp"

namespace weir::api {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using net::ip::tcp;
using runtime::nothrow;
using std::chrono::steady_clock;

constexpr auto linger_deadline = std::chrono::seconds(1);
constexpr std::size_t linger_bytes_max = 4 * 1024 * 1024;
constexpr std::size_t target_bytes_max = 4 * 1024;
constexpr std::size_t request_id_max = 64;
constexpr std::size_t logged_bytes_max = 200;        // of a method or a path
constexpr std::size_t piece_bytes_max = 256 * 1024;  // of an answer, sent within one time limit

bool good_request_id(std::string_view id) {
  if (id.empty() || id.size() > request_id_max) return false;
  for (const char c : id)
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-' && c != '_' &&
        c != '.')
      return false;
  return true;
}

/// The result of a read or write.
struct Moved {
  error_code error;
  std::size_t size = 0;
};

/// The result of `operation`, or timed_out after `limit`. Unlike the time limits of beast::tcp_stream this leaves the
/// socket open, so that a client that is too slow can be told so.
net::awaitable<Moved> within(std::chrono::milliseconds limit,
                             net::awaitable<std::tuple<error_code, std::size_t>> operation) {
  using namespace net::experimental::awaitable_operators;
  net::steady_timer timer(co_await net::this_coro::executor, limit);
  const auto first = co_await (std::move(operation) || timer.async_wait(nothrow));
  if (first.index() == 1) co_return Moved{net::error::timed_out, 0};
  const auto [error, size] = std::get<0>(first);
  co_return Moved{error, size};
}

/// As the client writes it in Host: a listener on [::] takes IPv4 clients, too, as addresses like ::ffff:127.0.0.1.
std::string name_of(const net::ip::address& address) {
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).to_string() : address.to_string();
}

/// One client's connection. Owned by the coroutine that serves it; all members but drop() and end_soon() run on its
/// strand.
class Connection final : public TableMember, public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Services& services)
      : socket_(std::move(socket)),
        strand_(socket_.get_executor()),
        services_(services),
        limits_(services.limits),
        buffer_(services.limits.header_bytes_max) {
    ++services_.traffic.connections;
    error_code ec;
    const auto remote = socket_.remote_endpoint(ec);
    if (!ec) remote_ = name_of(remote.address());
    const auto local = socket_.local_endpoint(ec);
    if (!ec) local_ = name_of(local.address());
    // Events and small answers are sent at once; what belongs together is written together.
    socket_.set_option(tcp::no_delay(true), ec);
  }

  ~Connection() override {
    services_.connections.leave(id_);
    --services_.traffic.connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Enters the connection into the table. To be called before run().
  void enter() { id_ = services_.connections.enter(weak_from_this(), remote_); }

  static net::awaitable<void> run(std::shared_ptr<Connection> self) {
    bool more = true;
    while (more) {
      more = co_await self->wait_for_request();
      if (more) more = co_await self->exchange();
    }
    co_await self->linger();
  }

  void drop() override {
    net::post(strand_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->drop_here();
    });
  }

  void end_soon() override {
    net::post(strand_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end_soon_here();
    });
  }

 private:
  /// Closes the socket, so that any pending operation fails now.
  void drop_here() {
    abort_ = true;
    error_code ignored;
    socket_.close(ignored);
    if (source_ != nullptr) source_->abandon();
  }

  void end_soon_here() {
    error_code ignored;
    if (idle_) socket_.close(ignored);
    if (source_ != nullptr) source_->finish();
  }

  /// From here on the server waits for the client: for it to send, or to receive.
  void begin_to_wait() {
    if (!client_) services_.connections.waits(id_);
  }

  using Parser = http::request_parser<http::string_body>;

  /// Waits for the first byte of a request. Returns false if there will be none.
  net::awaitable<bool> wait_for_request() {
    idle_since_ = steady_clock::now();
    if (buffer_.size() > 0) co_return true;  // sent together with the request before
    if (services_.stopping) co_return false;
    begin_to_wait();
    idle_ = true;
    auto reading = socket_.async_read_some(buffer_.prepare(buffer_.max_size()), nothrow);
    const auto limit = client_ ? limits_.idle_deadline : std::min(limits_.idle_deadline, limits_.stranger_deadline);
    const auto got = co_await within(limit, std::move(reading));
    idle_ = false;
    buffer_.commit(got.size);
    co_return !got.error;
  }

  /// The time left for a header. For a stranger it begins with the wait for the first byte.
  std::chrono::milliseconds header_deadline() const {
    if (client_) return limits_.header_deadline;
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - idle_since_);
    return std::min(limits_.header_deadline, limits_.stranger_deadline - waited);
  }

  /// Handles one request. Returns false if the connection ends with the answer.
  net::awaitable<bool> exchange() {
    Request request;
    request.id = random_hex().substr(0, 16);
    request.remote = remote_;
    request.local_address = local_;
    const auto started = steady_clock::now();
    Parser parser;
    // Set before the first byte is parsed: Beast does not enforce a limit that changes between header and body.
    parser.body_limit(limits_.body_bytes_max);
    parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes_max));
    parser.eager(false);

    std::string_view pattern;
    std::optional<Reply> reply = co_await read_header(parser, request);
    if (abort_) co_return false;  // dropped: there is nobody to answer
    const bool understood = !reply;
    if (understood) {
      auto admitted = admit_request(request);
      if (auto* refusal = std::get_if<Reply>(&admitted)) {
        reply = std::move(*refusal);
      } else {
        const auto* route = std::get<const Route*>(admitted);
        pattern = route->pattern;
        // What nobody reads would only fill memory: no route that strangers may use takes a body.
        if (!client_ && !route->json_body && !parser.is_done())
          reply = problem(413, "this request takes no body");
        else
          reply = co_await read_body(parser, request);
        if (!client_) services_.connections.works(id_);
        if (!reply) reply = co_await handle(*route, request);
      }
    }
    // If the body was not read, it would be taken for the next request.
    bool keep = understood && parser.is_done() && parser.get().keep_alive() && !services_.stopping;
    // With many strangers, this connection could be dropped while its next request is on the way: end it now.
    if (!client_) keep = keep && !turned_away_ && !services_.connections.crowded();
    begin_to_wait();
    const unsigned version = parser.is_header_done() ? parser.get().version() : 11;
    finish(request, *reply);
    const bool written = co_await write(request, *reply, keep, version);
    log(request, *reply, pattern, started);
    co_return written&& keep;
  }

  net::awaitable<std::optional<Reply>> read_header(Parser& parser, Request& request) {
    auto reading = net::async_read_until(socket_, buffer_, "\r\n\r\n", nothrow);
    const auto [error, size] = co_await within(header_deadline(), std::move(reading));
    if (error == net::error::not_found)
      co_return problem(431, "the header is larger than " + std::to_string(limits_.header_bytes_max) + " bytes");
    if (error == net::error::timed_out) co_return problem(408, "the header took too long to arrive");
    if (error) co_return problem(400, "the header is not complete");

    const std::string_view raw(static_cast<const char*>(buffer_.data().data()), size);
    if (const auto framing = check_framing(raw); !framing) co_return problem(framing.error());
    error_code parse_error;
    parser.put(net::buffer(raw), parse_error);
    buffer_.consume(size);
    if (auto refusal = header_problem(parse_error)) co_return refusal;

    const auto& message = parser.get();
    request.method = message.method_string();
    for (const auto& field : message) request.headers.emplace_back(to_lower(field.name_string()), field.value());
    if (const auto id = request.header("x-request-id"); id && good_request_id(*id)) request.id = *id;
    if (message.version() != 10 && message.version() != 11) co_return problem(505, "this is HTTP/1.1");
    if (auto refusal = transfer_problem(request, message.version())) co_return refusal;
    if (message.target().size() > target_bytes_max) co_return problem(414, "the request target is too long");
    auto target = parse_target(message.target());
    if (!target) co_return problem(target.error());
    request.target = std::move(*target);
    co_return std::nullopt;
  }

  std::optional<Reply> header_problem(error_code error) const {
    if (!error || error == http::error::need_more) return std::nullopt;
    if (error == http::error::body_limit) return body_too_large();
    if (error == http::error::header_limit) return problem(431, "the header is too large");
    if (error == http::error::bad_version) return problem(505, "this is HTTP/1.1");
    return problem(400, "not an HTTP request: " + error.message());
  }

  /// Refuses a request unless its host and the length of its body are stated once, so that a proxy in front of this
  /// server reads it in the same way.
  static std::optional<Reply> transfer_problem(const Request& request, unsigned version) {
    std::size_t hosts = 0;
    std::size_t lengths = 0;
    std::size_t encodings = 0;
    for (const auto& [name, value] : request.headers) {
      hosts += name == "host" ? 1 : 0;
      lengths += name == "content-length" ? 1 : 0;
      encodings += name == "transfer-encoding" ? 1 : 0;
    }
    if (hosts > 1) return problem(400, "more than one Host");
    if (lengths + encodings > 1) return problem(400, "the length of the body is given more than once");
    if (request.header("content-length").value_or("0").find_first_not_of("0123456789") != std::string_view::npos)
      return problem(400, "Content-Length must be one number");
    if (encodings == 1 && version == 10) return problem(400, "HTTP/1.0 has no Transfer-Encoding");
    if (encodings == 1 && to_lower(*request.header("transfer-encoding")) != "chunked")
      return problem(501, "no Transfer-Encoding but chunked is understood");
    return std::nullopt;
  }

  Reply body_too_large() const {
    return problem(413, "the body is larger than " + std::to_string(limits_.body_bytes_max) + " bytes");
  }

  std::variant<const Route*, Reply> admit_request(Request& request) {
    auto admitted = admit(services_, request);
    if (client_ || request.proof == Proof::none) return admitted;
    client_ = services_.connections.admit(id_);
    if (client_) return admitted;
    turned_away_ = true;
    const auto* route = std::get_if<const Route*>(&admitted);
    if (route != nullptr && (*route)->guard == Guard::open) return admitted;  // a stranger's place is enough for those
    return problem(503, "too many connections");
  }

  net::awaitable<std::optional<Reply>> read_body(Parser& parser, Request& request) {
    if (parser.is_done()) co_return std::nullopt;
    // RFC 9110, 10.1.1: a client of HTTP/1.0 does not know the answer.
    if (const auto expectation = request.header("expect"); expectation && parser.get().version() == 11) {
      if (to_lower(*expectation) != "100-continue") co_return problem(417, "no expectation but 100-continue is met");
      static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      const bool written = co_await write_piece(net::buffer(go_on));
      if (!written) co_return problem(400, "the client left");
    }
    parser.eager(true);
    auto reading = http::async_read(socket_, buffer_, parser, nothrow);
    const auto [error, size] = co_await within(limits_.body_deadline, std::move(reading));
    if (error == http::error::body_limit) co_return body_too_large();
    if (error == net::error::timed_out) co_return problem(408, "the body took too long to arrive");
    if (error) co_return problem(400, "the body cannot be read: " + error.message());
    request.body = std::move(parser.get().body());
    co_return std::nullopt;
  }

  /// Runs the handler and converts exceptions of libraries to an answer.
  net::awaitable<Reply> handle(const Route& route, const Request& request) {
    try {
      co_return co_await route.handler(services_, request);
    } catch (const boost::system::system_error& e) {
      if (e.code() == net::error::operation_aborted) throw;  // the server stops
      spdlog::error("http {} {} {}: {}", request.id, request.method, request.target.path, e.what());
    } catch (const std::exception& e) {
      spdlog::error("http {} {} {}: {}", request.id, request.method, request.target.path, e.what());
    }
    co_return problem(500, "a fault of the head; its log says more under this request's id");
  }

  net::awaitable<bool> write(const Request& request, Reply& reply, bool keep, unsigned version) {
    if (auto* streamed = std::get_if<Reply::Streamed>(&reply.body); streamed != nullptr && request.method != "HEAD")
      co_return co_await write_streamed(reply, *streamed, keep, version);
    std::string_view bytes;
    if (const auto* text = std::get_if<std::string>(&reply.body)) bytes = *text;
    if (const auto* fixed = std::get_if<Reply::Static>(&reply.body)) bytes = fixed->bytes;
    auto header = header_of(reply, keep, version);
    if (request.method != "HEAD" && reply.status != 204 && reply.status != 304) {
      co_return co_await write_whole(std::move(header), bytes);
    }
    // 204 and 304 have no body; the answer to HEAD has the length that the body would have.
    if (const auto* streamed = std::get_if<Reply::Streamed>(&reply.body)) {
      if (streamed->size) header.content_length(*streamed->size);
    } else if (reply.status != 204 && reply.status != 304) {
      header.content_length(bytes.size());
    }
    co_return co_await write_header(header);
  }

  /// Writes an answer in pieces, each of which has the time limit: a large one over a slow line takes long.
  net::awaitable<bool> write_whole(http::response<http::empty_body> header, std::string_view bytes) {
    // The header and the first piece of the body in one write: a small answer is one packet.
    http::response<http::span_body<const char>> first(std::move(header));
    const auto begin = bytes.substr(0, piece_bytes_max);
    first.body() = {begin.data(), begin.size()};
    first.content_length(bytes.size());
    const auto sent = co_await within(limits_.write_deadline, http::async_write(socket_, first, nothrow));
    if (sent.error) co_return false;
    services_.traffic.sent_bytes += begin.size();
    for (std::size_t at = begin.size(); at < bytes.size(); at += piece_bytes_max) {
      const auto piece = bytes.substr(at, piece_bytes_max);
      const bool written = co_await write_piece(net::buffer(piece));
      if (!written) co_return false;
    }
    co_return true;
  }

  net::awaitable<bool> write_streamed(const Reply& reply, Reply::Streamed& streamed, bool keep, unsigned version) {
    const bool chunked = !streamed.size && version == 11;
    if (!streamed.size && !chunked) keep = false;  // HTTP/1.0: the end of the connection ends the body
    auto header = header_of(reply, keep, version);
    if (streamed.size) header.content_length(*streamed.size);
    if (chunked) header.chunked(true);  // chunked(false) would remove Content-Length
    const bool begun = co_await write_header(header);
    if (!begun) co_return false;
    const Sourced sourced(source_, *streamed.source);
    if (services_.stopping) source_->finish();
    while (true) {
      auto piece = co_await streamed.source->next();
      if (!piece) {
        spdlog::debug("http: an answer was cut short: {}", piece.error().message());
        abort_ = true;
        co_return false;
      }
      if (piece->empty()) break;
      bool sent = false;
      if (chunked)
        sent = co_await write_piece(http::make_chunk(net::buffer(*piece)));
      else
        sent = co_await write_piece(net::buffer(*piece));
      if (!sent) co_return false;
    }
    if (!chunked) co_return keep;
    const bool ended = co_await write_piece(http::make_chunk_last());
    co_return ended&& keep;
  }

  net::awaitable<bool> write_header(http::response<http::empty_body>& header) {
    http::response_serializer<http::empty_body> serializer(header);
    auto writing = http::async_write_header(socket_, serializer, nothrow);
    const auto sent = co_await within(limits_.write_deadline, std::move(writing));
    co_return !sent.error;
  }

  template <class Buffers>
  net::awaitable<bool> write_piece(Buffers buffers) {
    const auto sent = co_await within(limits_.write_deadline, net::async_write(socket_, buffers, nothrow));
    services_.traffic.sent_bytes += sent.size;
    co_return !sent.error;
  }

  static http::response<http::empty_body> header_of(const Reply& reply, bool keep, unsigned version) {
    http::response<http::empty_body> header;
    header.version(version);
    header.result(reply.status);
    if (reply.status >= 400) header.reason(reason_phrase(reply.status));
    for (const auto& [name, value] : reply.headers) header.insert(name, value);
    header.keep_alive(keep);
    return header;
  }

  /// Ends the connection so that the client gets the whole answer: closing a socket with unread bytes would reset it.
  net::awaitable<void> linger() {
    error_code ignored;
    if (abort_) {
      socket_.close(ignored);
      co_return;
    }
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    buffer_.clear();
    const auto end = steady_clock::now() + linger_deadline;
    for (std::size_t read = 0; read < linger_bytes_max;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady_clock::now());
      auto reading = socket_.async_read_some(buffer_.prepare(buffer_.max_size()), nothrow);
      const auto got = co_await within(left, std::move(reading));
      if (got.error) break;
      read += got.size;
    }
    socket_.close(ignored);
  }

  void log(const Request& request, const Reply& reply, std::string_view pattern, steady_clock::time_point started) {
    const double seconds = std::chrono::duration<double>(steady_clock::now() - started).count();
    services_.traffic.add(request.method, pattern, reply.status, seconds);
    // Every call that may change something is in the log, in which strangers must not write: they would fill the disk.
    const auto level = request.proof == Proof::none ? spdlog::level::debug
                       : reply.status >= 500        ? spdlog::level::warn
                       : request.safe()             ? spdlog::level::debug
                                                    : spdlog::level::info;
    // The query is not in it, it may carry a login code.
    const std::string_view path = request.target.path;
    spdlog::log(level, "http {} {} {} {} {} {:.1f} ms", request.id, request.remote,
                request.method.substr(0, logged_bytes_max), path.substr(0, logged_bytes_max), reply.status,
                seconds * 1e3);
  }

  /// Sets `source_` to the body being sent, for as long as it is sent.
  class Sourced {
   public:
    Sourced(BodySource*& place, BodySource& source) : place_(place) { place_ = &source; }
    ~Sourced() { place_ = nullptr; }
    Sourced(const Sourced&) = delete;
    Sourced& operator=(const Sourced&) = delete;

   private:
    BodySource*& place_;
  };

  tcp::socket socket_;
  const net::any_io_executor strand_;
  Services& services_;
  const Limits& limits_;
  ConnectionTable::Id id_ = 0;
  bool client_ = false;       ///< a request has proven that it knows the token
  bool turned_away_ = false;  ///< likewise, but there was no place for one more client
  bool idle_ = false;         ///< between requests
  bool abort_ = false;        ///< the answer is not whole: the client must notice
  BodySource* source_ = nullptr;
  steady_clock::time_point idle_since_;
  beast::flat_buffer buffer_;
  std::string remote_;
  std::string local_;
};

}  // namespace

net::awaitable<void> serve(tcp::socket socket, Services& services) {
  auto connection = std::make_shared<Connection>(std::move(socket), services);
  connection->enter();
  return Connection::run(std::move(connection));
}

}  // namespace weir::api
