#include "runtime/tcp_transport.hpp"

#include <linux/sockios.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <mutex>
#include <optional>
#include <utility>

#include "base/errc.hpp"

namespace weir::runtime {
namespace {

using boost::system::error_code;
using Tcp = net::ip::tcp;

Error io_error(const error_code& code, const std::string& what) { return {Errc::io, what + ": " + code.message()}; }

void log_thrown(const std::exception_ptr& thrown) {
  if (!thrown) return;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    spdlog::error("tcp transport: {}", e.what());
  }
}

/// A Link over a socket. Kept alive by its receive loop and by its owners. A mutex guards the queue; the rest runs on
/// the strand.
class TcpLink final : public Link, public std::enable_shared_from_this<TcpLink> {
 public:
  TcpLink(Tcp::socket socket, const TcpOptions& options)
      : socket_(std::move(socket)),
        native_(socket_.native_handle()),
        executor_(socket_.get_executor()),
        decoder_(options.limits),
        queued_bytes_max_(options.queued_bytes_max) {
    error_code ignored;  // if the socket has broken already, the first read fails
    socket_.set_option(Tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    const auto remote = socket_.remote_endpoint(ignored);
    remote_ = Endpoint{remote.address().to_string(), remote.port()}.text();
  }

  void start(std::shared_ptr<LinkHandler> handler) override {
    net::dispatch(executor_, [self = shared_from_this(), handler = std::move(handler)]() mutable {
      self->start_here(std::move(handler));
    });
  }

  Result<void> send(FrameKind kind, BytesView body, std::span<const Segment> segments) override {
    std::scoped_lock lock(mutex_);
    if (closed_) return Error{Errc::peer_lost, "the link with " + remote_ + " is closed"};
    if (queued_.bytes() > queued_bytes_max_) {
      return Error{Errc::exhausted, std::to_string(queued_.bytes()) + " bytes wait to be read by " + remote_};
    }
    const std::size_t before = queued_.bytes();
    if (auto added = queued_.add(kind, body, segments); !added) return added;
    accepted_.fetch_add(queued_.bytes() - before, std::memory_order_relaxed);
    if (!flushing_) {
      flushing_ = true;
      net::post(executor_, [self = shared_from_this()] { self->flush(); });
    }
    return {};
  }

  void close(Error reason) override {
    net::post(executor_, [self = shared_from_this(), reason = std::move(reason)] { self->shut(reason); });
  }

  void set_limits(FrameLimits limits) override { decoder_.set_limits(limits); }
  net::any_io_executor executor() const override { return executor_; }
  std::string remote() const override { return remote_; }
  std::uint64_t bytes_sent() const override { return sent_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_received() const override { return received_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_accepted() const override { return accepted_.load(std::memory_order_relaxed); }

  std::uint64_t bytes_acknowledged() const override {
    int waiting = 0;  // in the kernel: not sent, or sent and not acknowledged
    if (!socket_.is_open() || ::ioctl(native_, SIOCOUTQ, &waiting) != 0) return bytes_sent();
    return bytes_sent() - std::min(bytes_sent(), static_cast<std::uint64_t>(std::max(waiting, 0)));
  }

 private:
  /// On the strand: close() may be called at the same time.
  void start_here(std::shared_ptr<LinkHandler> handler) {
    if (shut_) return handler->on_closed(*shut_);
    handler_ = std::move(handler);
    // The handler owns the link, and the link its handler until shut(). When an io_context is destroyed, it destroys
    // the suspended loop without a call of shut(): the guard then releases the handler.
    std::shared_ptr<void> guard(nullptr, [self = shared_from_this()](void*) { self->handler_.reset(); });
    net::co_spawn(executor_, receive(shared_from_this()),
                  [self = shared_from_this(), guard = std::move(guard)](const std::exception_ptr& thrown) {
                    log_thrown(thrown);
                    if (thrown) self->shut({Errc::internal, "a received frame could not be handled"});
                  });
  }

  static net::awaitable<void> receive(std::shared_ptr<TcpLink> self) {
    while (self->handler_) {
      const auto space = self->decoder_.prepare();
      const auto [failed, count] =
          co_await self->socket_.async_read_some(net::buffer(space.data(), space.size()), nothrow);
      if (failed) {
        const bool ended = failed == net::error::eof || failed == net::error::connection_reset;
        self->shut(ended ? Error{Errc::peer_lost, self->remote_ + " has closed the link"}
                         : Error{Errc::peer_lost, self->remote_ + ": " + failed.message()});
        co_return;
      }
      self->received_.fetch_add(count, std::memory_order_relaxed);
      self->decoder_.commit(count);
      self->take_frames();
    }
  }

  void take_frames() {
    FrameView frame;
    while (handler_) {
      auto more = decoder_.next(frame);
      if (!more) return shut(more.error());
      if (!*more) return;
      handler_->on_frame(frame);
    }
  }

  /// Writes until the queue is empty or the socket is full, including what is added meanwhile.
  void flush() {
    while (true) {
      if (writing_.empty()) {
        std::scoped_lock lock(mutex_);
        if (queued_.empty() || closed_) {
          flushing_ = false;
          return;
        }
        std::swap(writing_, queued_);
      }
      error_code failed;
      write_some(failed);
      if (failed == net::error::would_block || failed == net::error::try_again) {
        return socket_.async_wait(Tcp::socket::wait_write, [self = shared_from_this()](error_code stopped) {
          if (!stopped) self->flush();
        });
      }
      if (failed) return shut({Errc::peer_lost, remote_ + ": " + failed.message()});
    }
  }

  void write_some(error_code& failed) {
    std::array<BytesView, 64> spans;
    std::array<net::const_buffer, 64> buffers;
    const std::size_t count = writing_.spans(spans);
    for (std::size_t i = 0; i < count; ++i) buffers[i] = {spans[i].data(), spans[i].size()};
    const std::size_t written = socket_.write_some(std::span(buffers).first(count), failed);
    writing_.consume(written);
    sent_.fetch_add(written, std::memory_order_relaxed);
  }

  void shut(const Error& reason) {
    auto handler = std::exchange(handler_, nullptr);
    if (shut_) return;
    shut_ = reason;
    error_code ignored;
    for (int i = 0; i < 2; ++i) {  // what was being written, then what is queued, as far as the socket takes it
      if (!writing_.empty()) write_some(ignored);
      if (!writing_.empty() || ignored) break;
      std::scoped_lock lock(mutex_);
      std::swap(writing_, queued_);
    }
    {
      std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    writing_.clear();
    socket_.shutdown(Tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    if (handler) handler->on_closed(reason);
  }

  Tcp::socket socket_;
  const int native_;  ///< the socket's descriptor, while it is open
  const net::any_io_executor executor_;
  std::string remote_;
  FrameDecoder decoder_;
  std::shared_ptr<LinkHandler> handler_;
  FrameBuffer writing_;
  std::optional<Error> shut_;  ///< why
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::uint64_t> received_ = 0;
  std::atomic<std::uint64_t> accepted_ = 0;

  const std::size_t queued_bytes_max_;
  std::mutex mutex_;  // guards what follows
  FrameBuffer queued_;
  bool flushing_ = false;
  bool closed_ = false;
};

class TcpListener final : public Listener {
 public:
  TcpListener(Tcp::acceptor acceptor, Transport::Accept accept, const TcpOptions& options)
      : state_(std::make_shared<State>(std::move(acceptor), std::move(accept), options)) {
    const auto local = state_->acceptor.local_endpoint();
    endpoint_ = {local.address().to_string(), local.port()};
    net::co_spawn(state_->acceptor.get_executor(), run(state_), log_thrown);
  }
  ~TcpListener() override {
    net::post(state_->acceptor.get_executor(), [state = state_] {
      error_code ignored;
      state->acceptor.close(ignored);
    });
  }
  Endpoint endpoint() const override { return endpoint_; }

 private:
  struct State {
    State(Tcp::acceptor a, Transport::Accept f, const TcpOptions& o)
        : acceptor(std::move(a)), accept(std::move(f)), options(o) {}
    Tcp::acceptor acceptor;
    Transport::Accept accept;
    TcpOptions options;
  };

  static net::awaitable<void> run(std::shared_ptr<State> state) {
    while (state->acceptor.is_open()) {
      auto [failed, socket] =
          co_await state->acceptor.async_accept(net::make_strand(state->acceptor.get_executor()), nothrow);
      if (!state->acceptor.is_open() || failed == net::error::operation_aborted) co_return;
      if (failed) {  // most likely no descriptors are left: wait until some are closed
        spdlog::warn("accepting a link: {}", failed.message());
        net::steady_timer pause(state->acceptor.get_executor(), std::chrono::milliseconds(100));
        co_await pause.async_wait(nothrow);
        continue;
      }
      state->accept(std::make_shared<TcpLink>(std::move(socket), state->options));
    }
  }

  std::shared_ptr<State> state_;
  Endpoint endpoint_;
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(net::any_io_executor executor, TcpOptions options) : executor_(std::move(executor)), options_(options) {}

  Result<std::unique_ptr<Listener>> listen(net::any_io_executor executor, const Endpoint& at, Accept accept) override {
    error_code failed;
    Tcp::resolver resolver(executor);
    const auto found = resolver.resolve(at.host, std::to_string(at.port), Tcp::resolver::passive, failed);
    if (failed || found.empty()) return Error{Errc::invalid_argument, "cannot listen on " + at.text()};
    const Tcp::endpoint address = found.begin()->endpoint();
    Tcp::acceptor acceptor(net::make_strand(executor));
    acceptor.open(address.protocol(), failed);
    if (!failed) acceptor.set_option(Tcp::acceptor::reuse_address(true), failed);
    if (!failed) acceptor.bind(address, failed);
    if (!failed) acceptor.listen(net::socket_base::max_listen_connections, failed);
    if (failed) return io_error(failed, "cannot listen on " + at.text());
    return std::make_unique<TcpListener>(std::move(acceptor), std::move(accept), options_);
  }

  net::awaitable<Result<std::shared_ptr<Link>>> connect(Endpoint to) override {
    Tcp::resolver resolver(executor_);
    const auto [unknown, found] = co_await resolver.async_resolve(to.host, std::to_string(to.port), nothrow);
    if (unknown == net::error::operation_aborted) co_return Error{Errc::cancelled, to.text()};
    if (unknown) co_return io_error(unknown, to.text());
    Error last{Errc::io, to.text() + ": the name has no address"};
    for (const auto& entry : found) {
      auto link = co_await connect_to(entry.endpoint(), to.text());
      if (link || link.error().code == Errc::cancelled) co_return link;
      last = link.error();
    }
    co_return last;
  }

 private:
  /// One attempt to connect, shared with the timer that ends it.
  struct Attempt {
    explicit Attempt(const net::any_io_executor& executor) : socket(net::make_strand(executor)) {}
    Tcp::socket socket;
    bool late = false;
  };

  /// `to` is what to call it in an error.
  net::awaitable<Result<std::shared_ptr<Link>>> connect_to(Tcp::endpoint address, std::string to) {
    const auto attempt = std::make_shared<Attempt>(executor_);
    net::steady_timer limit(co_await net::this_coro::executor, options_.connect_limit);
    limit.async_wait([weak = std::weak_ptr(attempt)](const error_code& stopped) {
      const auto waiting = weak.lock();
      if (stopped || !waiting) return;
      waiting->late = true;
      error_code ignored;
      waiting->socket.close(ignored);
    });
    const auto [failed] = co_await attempt->socket.async_connect(address, nothrow);
    if (attempt->late) {  // even if the answer came at the same time: the socket is closed
      co_return Error{Errc::deadline_exceeded,
                      to + " has not answered within " + std::to_string(options_.connect_limit.count()) + " ms"};
    }
    if (failed == net::error::operation_aborted) co_return Error{Errc::cancelled, to};
    if (failed) co_return io_error(failed, to);
    std::shared_ptr<Link> link = std::make_shared<TcpLink>(std::move(attempt->socket), options_);
    co_return link;
  }

  net::any_io_executor executor_;
  TcpOptions options_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(net::any_io_executor executor, TcpOptions options) {
  return std::make_unique<TcpTransport>(std::move(executor), options);
}

}  // namespace weir::runtime
