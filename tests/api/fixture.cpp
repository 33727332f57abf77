#include "tests/api/fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <future>

namespace weir::api {

Wire::Wire(std::uint16_t port, const char* address) : socket_(io_) {
  socket_.connect({net::ip::make_address(address), port});
}

void Wire::send(std::string_view bytes) { net::write(socket_, net::buffer(bytes)); }

std::size_t Wire::send_what_is_taken(std::string_view bytes) {
  boost::system::error_code ec;
  return net::write(socket_, net::buffer(bytes), ec);
}

Answer Wire::answer(bool to_head) {
  boost::system::error_code ec;
  auto answer = this->answer(to_head, ec);
  EXPECT_FALSE(ec) << "no answer: " << ec.message();
  return answer;
}

Answer Wire::answer(bool to_head, boost::system::error_code& ec) {
  http::response_parser<http::string_body> parser;
  parser.skip(to_head);
  parser.body_limit(64 << 20);
  http::read(socket_, buffer_, parser, ec);
  return parser.release();
}

std::string_view Wire::held() const { return {static_cast<const char*>(buffer_.data().data()), buffer_.size()}; }

std::string Wire::until(std::string_view end) {
  boost::system::error_code ec;
  auto at = held().find(end);
  while (at == std::string_view::npos && !ec) {
    buffer_.commit(socket_.read_some(buffer_.prepare(65536), ec));
    at = held().find(end);
  }
  EXPECT_FALSE(ec) << "never came: " << end;
  if (ec) return {};
  std::string bytes(held().substr(0, at + end.size()));
  buffer_.consume(bytes.size());
  return bytes;
}

std::string Wire::rest() {
  boost::system::error_code ec;
  while (!ec) buffer_.commit(socket_.read_some(buffer_.prepare(65536), ec));
  EXPECT_EQ(ec, net::error::eof);
  std::string bytes(held());
  buffer_.clear();
  return bytes;
}

bool Wire::closed() {
  boost::system::error_code ec;
  char byte = 0;
  return socket_.read_some(net::buffer(&byte, 1), ec) == 0 &&
         (ec == net::error::eof || ec == net::error::connection_reset);
}

void Wire::shrink_receive_buffer(int bytes) { socket_.set_option(net::socket_base::receive_buffer_size(bytes)); }

std::size_t Wire::read_slowly(std::size_t piece, std::chrono::milliseconds pause) {
  std::string bytes(piece, '\0');
  std::size_t all = 0;
  for (boost::system::error_code ec; !ec;) {
    all += net::read(socket_, net::buffer(bytes), ec);
    net::steady_timer(io_, pause).wait();
  }
  return all;
}

void ServerTest::stop() {
  if (server) net::co_spawn(io, server->stop(), net::use_future).get();
  server.reset();
}

ServerTest::~ServerTest() {
  stop();
  work_.reset();
  io.stop();
  if (thread_.joinable()) thread_.join();
}

void ServerTest::start() {
  if (server) return;
  auto started = Server::start(options, head, io.get_executor(), clock);
  ASSERT_TRUE(started) << started.error().message();
  server = std::move(*started);
  work_.emplace(io.get_executor());
  thread_ = std::thread([this] { io.run(); });
}

std::uint16_t ServerTest::port() {
  start();
  const auto& address = server->address();
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

std::string ServerTest::text(const std::string& method, const std::string& target, const std::string& headers,
                             const std::string& body) {
  std::string message = method + " " + target + " HTTP/1.1\r\nHost: " + host() + "\r\n";
  message += "Authorization: Bearer " + test_token + "\r\n" + headers;
  if (!body.empty()) message += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return message + "\r\n" + body;
}

Answer ServerTest::request(const std::string& method, const std::string& target, const std::string& headers,
                           const std::string& body) {
  Wire wire(port());
  wire.send(text(method, target, headers, body));
  return wire.answer(method == "HEAD");
}

void ServerTest::on_head(std::function<void()> change) {
  start();
  std::promise<void> done;
  net::post(io, [&] {
    change();
    done.set_value();
  });
  done.get_future().get();
}

void ServerTest::add_job(const std::string& id, cluster::JobState state) {
  cluster::JobRecord job;
  job.id = id;
  job.name = "name of " + id;
  job.state = state;
  job.spec = nlohmann::json::object();
  head.jobs_by_id[id] = job;
}

void expect_problem(const Answer& answer, unsigned status) {
  EXPECT_EQ(answer.result_int(), status) << answer.body();
  EXPECT_EQ(answer[http::field::content_type], "application/problem+json");
  const auto body = nlohmann::json::parse(answer.body(), nullptr, false);
  ASSERT_TRUE(body.is_object()) << answer.body();
  EXPECT_EQ(body.value("status", 0u), status);
  EXPECT_FALSE(body.value("title", "").empty());
  EXPECT_FALSE(body.value("type", "").empty());
  EXPECT_EQ(body.value("request_id", ""), std::string(answer["X-Request-Id"]));
}

}  // namespace weir::api
