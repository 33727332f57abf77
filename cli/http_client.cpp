#include "cli/http_client.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <exception>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "cli/http_stream.hpp"
#include "cli/place.hpp"

namespace weir::cli {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using std::chrono::seconds;

inline constexpr auto nothrow = net::as_tuple(net::use_awaitable);

constexpr seconds connect_deadline{10};
constexpr seconds silence_max{60};  ///< the head sends something every 15 s
constexpr std::size_t answer_bytes_max = 256 * 1024 * 1024;
constexpr std::size_t refusal_bytes_max = 1024 * 1024;

using Request = http::request<http::string_body>;

Request make_request(Verb verb, const std::string& target, const Place& place, const std::string& token) {
  constexpr std::array verbs{http::verb::get, http::verb::post, http::verb::delete_};
  Request request(verbs.at(static_cast<std::size_t>(verb)), target, 11);
  request.set(http::field::host, place.authority());
  request.set(http::field::user_agent, "weir");
  if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
  return request;
}

/// `sent` becomes true once the head may have received the request.
net::awaitable<Result<HttpAnswer>> exchange(Place place, net::ssl::context* tls, Request request,
                                            std::chrono::milliseconds deadline, bool& sent) {
  HttpStream stream(co_await net::this_coro::executor, tls);
  const auto limit = std::min<std::chrono::milliseconds>(deadline, connect_deadline);
  if (auto connected = co_await stream.connect(place, limit); !connected) co_return connected.error();
  request.set(http::field::connection, "close");
  request.prepare_payload();
  stream.expires_after(deadline);
  sent = true;
  auto [write_code, written] = co_await http::async_write(stream, request, nothrow);
  // A head that refuses a body may answer before it has read it: the answer counts more than the failed write.
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(answer_bytes_max);
  auto [read_code, read] = co_await http::async_read(stream, buffer, parser, nothrow);
  if (read_code) co_return network_error(write_code ? write_code : read_code, place);
  auto message = parser.release();
  co_return HttpAnswer{message.result_int(), std::string(message[http::field::content_type]),
                       std::move(message.body())};
}

/// An answer of any length, read piece by piece.
class LongAnswer {
 public:
  LongAnswer(net::any_io_executor executor, net::ssl::context* tls, Place place)
      : stream_(std::move(executor), tls), place_(std::move(place)), piece_(64 * 1024) {
    parser_.body_limit(boost::none);
  }

  /// Sends the request and reads the head of the answer. Fails with what the network fails with.
  net::awaitable<Result<void>> open(const Request& request) {
    if (auto connected = co_await stream_.connect(place_, connect_deadline); !connected) co_return connected;
    stream_.expires_after(silence_max);
    auto [write_code, written] = co_await http::async_write(stream_, request, nothrow);
    if (write_code) co_return network_error(write_code, place_);
    auto [code, bytes] = co_await http::async_read_header(stream_, buffer_, parser_, nothrow);
    if (code) co_return network_error(code, place_);
    co_return Result<void>();
  }

  bool accepted() const { return parser_.get().result() == http::status::ok; }
  bool done() const { return parser_.is_done(); }

  /// The next bytes of the body, perhaps none. Fails with what the network fails with.
  net::awaitable<Result<std::string_view>> next() {
    auto& body = parser_.get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    stream_.expires_after(silence_max);
    auto [code, bytes] = co_await http::async_read_some(stream_, buffer_, parser_, nothrow);
    if (code && code != http::error::need_buffer) co_return network_error(code, place_);
    co_return std::string_view(piece_.data(), piece_.size() - body.size);
  }

  /// Why the request is not accepted, as the body says, or what the network failed with meanwhile.
  net::awaitable<Error> refusal() {
    std::string text;
    while (!done() && text.size() < refusal_bytes_max) {
      const auto piece = co_await next();
      if (!piece) co_return piece.error();
      text += *piece;
    }
    const std::string type(parser_.get()[http::field::content_type]);
    const HttpAnswer answer{parser_.get().result_int(), type, std::move(text)};
    co_return answer_error(answer, place_.authority());
  }

 private:
  HttpStream stream_;
  const Place place_;
  std::vector<char> piece_;
  beast::flat_buffer buffer_;
  http::response_parser<http::buffer_body> parser_;
};

Error interruption() { return {Errc::cancelled, "interrupted"}; }

using Write = std::function<Result<void>(std::string_view)>;

net::awaitable<Result<void>> receive(Place place, net::ssl::context* tls, Request request, const Write& write) {
  LongAnswer answer(co_await net::this_coro::executor, tls, std::move(place));
  request.set(http::field::connection, "close");
  if (auto opened = co_await answer.open(request); !opened) co_return opened;
  if (!answer.accepted()) co_return co_await answer.refusal();
  while (!answer.done()) {
    const auto piece = co_await answer.next();
    if (!piece) co_return piece.error();
    if (auto taken = write(*piece); !taken) co_return taken;
  }
  co_return Result<void>();
}

/// Reads one event stream, over as many connections as it takes.
class StreamReader {
 public:
  StreamReader(net::io_context& io, Place place, net::ssl::context* tls, Request request,
               const HttpClient::StreamHandlers& handlers, seconds patience)
      : io_(io),
        place_(std::move(place)),
        tls_(tls),
        request_(std::move(request)),
        handlers_(handlers),
        patience_(patience) {}

  /// Returns when the stream is over; the outcome is in `result_`.
  net::awaitable<void> run() {
    auto since = std::chrono::steady_clock::now();
    auto pause = std::chrono::milliseconds(200);
    while (true) {
      const std::optional<Error> broken = co_await read_once();
      if (!broken) break;  // result_ is decided
      if (opened_) {
        since = std::chrono::steady_clock::now();
        pause = std::chrono::milliseconds(200);
      }
      if ((!ever_opened_ && !opened_) || std::chrono::steady_clock::now() - since > patience_) {
        result_ = *broken;
        break;
      }
      if (opened_ && handlers_.broken) handlers_.broken(*broken);
      net::steady_timer timer(io_, pause);
      co_await timer.async_wait(nothrow);
      pause = std::min<std::chrono::milliseconds>(pause * 2, seconds(5));
    }
    io_.stop();
  }

  void interrupt() {
    result_ = interruption();
    io_.stop();
  }

  Result<void> result() const { return result_; }

 private:
  /// Reads over one connection. Returns why it broke, or nothing when `result_` is decided.
  net::awaitable<std::optional<Error>> read_once() {
    opened_ = false;
    LongAnswer answer(io_.get_executor(), tls_, place_);
    if (auto opened = co_await answer.open(request_); !opened) co_return opened.error();
    if (!answer.accepted()) co_return failed(co_await answer.refusal());
    if (handlers_.opened) {
      if (auto done = handlers_.opened(); !done) co_return failed(done.error());
    }
    opened_ = ever_opened_ = true;
    EventParser events;
    while (!answer.done()) {
      const auto piece = co_await answer.next();
      if (!piece) co_return piece.error();
      if (auto fed = events.feed(*piece); !fed) co_return decide(fed);
      while (auto event = events.next()) {
        auto more = handlers_.event(*event);
        if (!more) co_return failed(more.error());
        if (!*more) co_return decide({});
        go_on_after(events);
      }
      go_on_after(events);
    }
    co_return Error{Errc::peer_lost, "the head closed the stream"};
  }

  void go_on_after(const EventParser& events) {
    if (events.last_id()) request_.set("Last-Event-ID", *events.last_id());
  }

  /// What may pass, such as the restart of a head or of a proxy in front of it, is a break like any other, once the
  /// stream has been open.
  std::optional<Error> failed(Error error) {
    const bool may_pass =
        error.code == Errc::peer_lost || error.code == Errc::deadline_exceeded || error.code == Errc::exhausted;
    return ever_opened_ && may_pass ? std::optional(std::move(error)) : decide(std::move(error));
  }

  std::optional<Error> decide(Result<void> result) {
    result_ = std::move(result);
    return std::nullopt;
  }

  net::io_context& io_;
  const Place place_;
  net::ssl::context* const tls_;
  Request request_;
  const HttpClient::StreamHandlers& handlers_;
  const seconds patience_;
  bool opened_ = false;
  bool ever_opened_ = false;
  Result<void> result_;
};

void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

/// Runs a task to its end on a loop of its own. SIGINT ends it instead of the process: then the result is cancelled.
template <class T>
Result<T> run(net::awaitable<Result<T>> task) {
  net::io_context io{1};
  std::optional<Result<T>> result;
  net::signal_set signals(io, SIGINT);
  signals.async_wait([&](boost::system::error_code stopped, int) {
    if (stopped) return;
    if (!result) result.emplace(interruption());
    io.stop();
  });
  net::co_spawn(io, std::move(task), [&](std::exception_ptr failure, Result<T> outcome) {
    rethrow(failure);
    if (!result) result.emplace(std::move(outcome));
    io.stop();
  });
  io.run();
  return std::move(*result);
}

/// The head's place, and the TLS settings for it.
struct Way {
  Place place;
  std::optional<net::ssl::context> believed;  ///< empty without TLS

  net::ssl::context* tls() { return believed ? &*believed : nullptr; }
};

Result<Way> way_to(const std::string& address, const std::filesystem::path& cacert) {
  auto place = Place::parse(address);
  if (!place) return place.error();
  Way way{std::move(*place), std::nullopt};
  if (!way.place.tls) return way;
  auto context = tls_context(cacert);
  if (!context) return context.error();
  way.believed.emplace(std::move(*context));
  return way;
}

}  // namespace

Result<HttpAnswer> HttpClient::request(HttpCall call) const {
  auto way = way_to(address_, cacert_);
  if (!way) return way.error();
  Request request = make_request(call.verb, call.target, way->place, token_);
  for (const auto& [name, value] : call.headers) request.set(name, value);
  if (call.body) {
    request.set(http::field::content_type, "application/json");
    request.body() = std::move(*call.body);
  }
  bool sent = false;
  auto answer = run(exchange(way->place, way->tls(), request, call.deadline, sent));
  if (!answer && sent && call.again && answer.error().code != Errc::cancelled) {
    call.again(answer.error());
    answer = run(exchange(way->place, way->tls(), std::move(request), call.deadline, sent));
  }
  if (!answer && call.sent) *call.sent = sent;
  return answer;
}

Result<void> HttpClient::download(const std::string& target, const Write& write) const {
  auto way = way_to(address_, cacert_);
  if (!way) return way.error();
  return run(receive(way->place, way->tls(), make_request(Verb::get, target, way->place, token_), write));
}

Result<void> HttpClient::stream(const std::string& target, const StreamHandlers& handlers,
                                std::chrono::seconds patience) const {
  auto way = way_to(address_, cacert_);
  if (!way) return way.error();
  Request request = make_request(Verb::get, target, way->place, token_);
  request.set(http::field::accept, "text/event-stream");
  net::io_context io{1};
  StreamReader reader(io, way->place, way->tls(), std::move(request), handlers, patience);
  net::signal_set signals(io, SIGINT);
  signals.async_wait([&reader](boost::system::error_code stopped, int) {
    if (!stopped) reader.interrupt();
  });
  net::co_spawn(io, reader.run(), rethrow);
  io.run();
  return reader.result();
}

}  // namespace weir::cli
