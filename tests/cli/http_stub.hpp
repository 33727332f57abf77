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

struct StubRequest {
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

/// A head for tests: passes each request to a function, on a thread of its own, and sends what it returns. If that is
/// "", the connection stays open without an answer.
class HttpStub {
 public:
  using Handler = std::function<std::string(const StubRequest&)>;

  explicit HttpStub(Handler handler)
      : handler_(std::move(handler)), acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::jthread([this] { serve(); });
  }

  ~HttpStub() {
    stopping_ = true;
    boost::asio::ip::tcp::socket wake(io_);
    boost::system::error_code ignored;
    wake.connect(acceptor_.local_endpoint(), ignored);
    wake.close(ignored);
    thread_.join();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }

  std::vector<StubRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    std::vector<boost::asio::ip::tcp::socket> silent;
    while (!stopping_) {
      boost::system::error_code code;
      auto socket = acceptor_.accept(code);
      boost::asio::streambuf buffer;
      const std::size_t head_bytes = boost::asio::read_until(socket, buffer, "\r\n\r\n", code);
      if (code) continue;
      const std::string read(boost::asio::buffers_begin(buffer.data()), boost::asio::buffers_end(buffer.data()));
      StubRequest request{read.substr(0, head_bytes), read.substr(head_bytes)};
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
      if (reply.empty()) {
        silent.push_back(std::move(socket));
      } else {
        boost::asio::write(socket, boost::asio::buffer(reply), code);
      }
    }
  }

  const Handler handler_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::vector<StubRequest> requests_;
  std::jthread thread_;
};

}  // namespace weir::cli::testing
