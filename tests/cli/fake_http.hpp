#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weir::cli::testing {

struct FakeRequest {
  std::string head;  ///< request line and header fields
  std::string body;

  std::string line() const { return head.substr(0, head.find(" HTTP/")); }  ///< "GET /path"
  bool has(const std::string& text) const { return head.find(text) != std::string::npos; }
};

inline std::string answer(int status, const std::string& body, const std::string& type = "application/json") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

/// An event stream that ends after `events`, as a broken connection does.
inline std::string event_stream(const std::string& events) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + events;
}

/// Accepts connections on a loopback port, one at a time, and passes each to a function on a thread of its own. If that
/// returns true, the connection stays open as long as the server.
class LoopbackServer {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  explicit LoopbackServer(std::function<bool(Socket&)> serve)
      : serve_(std::move(serve)), acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::jthread([this] { run(); });
  }

  ~LoopbackServer() {
    stopping_ = true;
    Socket wake(io_);
    boost::system::error_code ignored;
    wake.connect(acceptor_.local_endpoint(), ignored);
    wake.close(ignored);
    thread_.join();
  }

  std::string port() const { return std::to_string(acceptor_.local_endpoint().port()); }

 private:
  void run() {
    std::vector<Socket> kept;
    while (!stopping_) {
      boost::system::error_code code;
      auto socket = acceptor_.accept(code);
      if (!code && !stopping_ && serve_(socket)) kept.push_back(std::move(socket));
    }
  }

  const std::function<bool(Socket&)> serve_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_ = false;
  std::jthread thread_;
};

/// A head for tests: passes each request to a function, on a thread of its own, and sends what it returns. If that is
/// "", the connection stays open without an answer.
class FakeHttp {
 public:
  using Handler = std::function<std::string(const FakeRequest&)>;

  explicit FakeHttp(Handler handler)
      : handler_(std::move(handler)), server_([this](LoopbackServer::Socket& socket) { return serve(socket); }) {}

  std::string address() const { return "127.0.0.1:" + server_.port(); }

  std::vector<FakeRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  bool serve(LoopbackServer::Socket& socket) {
    boost::system::error_code code;
    boost::asio::streambuf buffer;
    const std::size_t head_bytes = boost::asio::read_until(socket, buffer, "\r\n\r\n", code);
    if (code) return false;
    const std::string read(boost::asio::buffers_begin(buffer.data()), boost::asio::buffers_end(buffer.data()));
    FakeRequest request{read.substr(0, head_bytes), read.substr(head_bytes)};
    if (const auto at = request.head.find("Content-Length: "); at != std::string::npos) {
      const std::size_t length = std::stoul(request.head.substr(at + 16));
      std::string rest(length - request.body.size(), '\0');
      boost::asio::read(socket, boost::asio::buffer(rest), code);
      request.body += rest;
    }
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string reply = handler_(request);
    if (!reply.empty()) boost::asio::write(socket, boost::asio::buffer(reply), code);
    return reply.empty();
  }

  const Handler handler_;
  mutable std::mutex mutex_;
  std::vector<FakeRequest> requests_;
  LoopbackServer server_;  // last: it ends before what it uses
};

}  // namespace weir::cli::testing
