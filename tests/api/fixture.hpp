#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "api/server.hpp"
#include "runtime/clock.hpp"
#include "tests/api/fake_head.hpp"

namespace weir::api {

namespace http = boost::beast::http;
using Answer = http::response<http::string_body>;

inline const std::string test_token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A plain socket to the server. Its waits have no time limit of their own: ctest's limit is the guard.
class Wire {
 public:
  explicit Wire(std::uint16_t port, const char* address = "127.0.0.1");

  void send(std::string_view bytes);
  /// Sends until the server stops reading; returns the number of bytes sent.
  std::size_t send_what_is_taken(std::string_view bytes);
  Answer answer(bool to_head = false);
  /// The same for a connection that the server may have closed without an answer.
  Answer answer(bool to_head, boost::system::error_code& ec);
  /// Reads and returns the bytes up to and including `end`.
  std::string until(std::string_view end);
  /// Reads and returns the bytes until the server closes the connection.
  std::string rest();
  bool closed();
  void shrink_receive_buffer(int bytes = 4096);
  /// Reads until the server closes the connection, with a pause after each `piece` bytes. Returns the number of bytes.
  std::size_t read_slowly(std::size_t piece, std::chrono::milliseconds pause);

 private:
  std::string_view held() const;

  net::io_context io_;
  net::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

/// No wait of a test reaches these times, however busy the machine is; a test of one of them sets it.
inline Limits patient_limits() {
  Limits limits;
  for (auto* const time : {&limits.stranger_deadline, &limits.idle_deadline, &limits.header_deadline,
                           &limits.body_deadline, &limits.write_deadline, &limits.heartbeat}) {
    *time = std::chrono::hours(1);
  }
  return limits;
}

/// The machine's clock, whose alarms do not go off while it is `quiet`.
class TestClock final : public runtime::Clock {
 public:
  time_point now() const override { return clock_.now(); }
  std::chrono::system_clock::time_point wall() const override { return clock_.wall(); }
  std::unique_ptr<runtime::Timer> set_timer(net::any_io_executor executor, time_point when,
                                            std::function<void()> callback) override {
    if (quiet) return std::make_unique<runtime::Timer>();
    return clock_.set_timer(std::move(executor), when, std::move(callback));
  }
  std::atomic<bool> quiet = false;

 private:
  runtime::SystemClock clock_;
};

/// A server on loopback with a FakeHead, on a thread of its own.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() = default;
  ~ServerTest() override;

  /// Starts the server if it is not running. `head` and `options` must be set up before.
  void start();
  /// Stops the server and waits for its end.
  void stop();
  std::uint16_t port();
  std::string host() { return "127.0.0.1:" + std::to_string(port()); }
  /// The text of a request with Host and token; `headers` are whole lines with CRLF.
  std::string text(const std::string& method, const std::string& target, const std::string& headers = "",
                   const std::string& body = "");
  Answer request(const std::string& method, const std::string& target, const std::string& headers = "",
                 const std::string& body = "");
  Answer get(const std::string& target, const std::string& headers = "") { return request("GET", target, headers); }
  Answer post_json(const std::string& target, const std::string& body, const std::string& headers = "") {
    return request("POST", target, "Content-Type: application/json\r\n" + headers, body);
  }
  /// Runs `change` on the head's thread.
  void on_head(std::function<void()> change);
  void add_job(const std::string& id, cluster::JobState state = cluster::JobState::running);

  net::io_context io;
  TestClock clock;
  FakeHead head{io};
  Server::Options options{.listen = "127.0.0.1:0",
                          .token = test_token,
                          .allow_hosts = {},
                          .public_url = {},
                          .sessions_file = {},
                          .version = "1.2.3",
                          .limits = patient_limits()};
  std::unique_ptr<Server> server;

 private:
  std::optional<net::executor_work_guard<net::io_context::executor_type>> work_;
  std::thread thread_;
};

inline nlohmann::json parsed(const Answer& answer) { return nlohmann::json::parse(answer.body()); }

/// Checks the form of an error's body.
void expect_problem(const Answer& answer, unsigned status);

}  // namespace weir::api
