#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "runtime/asio.hpp"
#include "runtime/frame.hpp"

namespace weir::runtime {

/// "host:port"; port 0 lets the system choose one.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  // Not an aggregate: g++ 12 destroys an aggregate that is built inside a co_await expression twice.
  Endpoint() = default;
  Endpoint(std::string h, std::uint16_t p) : host(std::move(h)), port(p) {}

  /// Accepts "host:port" and "[v6]:port". Fails with: invalid_argument.
  static Result<Endpoint> parse(std::string_view text);
  std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Receives the frames of a link. Called on the link's strand.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  virtual void on_frame(const FrameView& frame) = 0;
  /// The last call, made exactly once. `reason` is peer_lost, io, malformed, unsupported, exhausted, internal (a frame
  /// could not be handled), or the error given to close().
  virtual void on_closed(const Error& reason) = 0;
};

/// A two-way ordered stream of frames to one other process. Lives while it is open or referenced.
class Link {
 public:
  virtual ~Link() = default;

  /// Starts to receive. Must be called once. The link owns the handler until it is closed.
  virtual void start(std::shared_ptr<LinkHandler> handler) = 0;

  /// Queues a frame and returns. The body is copied, the segments are referenced until written. Thread-safe; frames of
  /// one thread stay in order. Fails with: exhausted (the queue is full: the other side does not read), peer_lost
  /// (closed).
  virtual Result<void> send(FrameKind kind, BytesView body, std::span<const Segment> segments) = 0;

  /// Writes as much of the queue as the other side takes at once, then closes. Thread-safe, idempotent.
  virtual void close(Error reason) = 0;

  /// May be called only from the handler or before start().
  virtual void set_limits(FrameLimits limits) = 0;

  /// The strand that the handler runs on.
  virtual net::any_io_executor executor() const = 0;

  /// For logs: the address of the other side.
  virtual std::string remote() const = 0;

  /// Bytes written to and read from the wire so far.
  virtual std::uint64_t bytes_sent() const = 0;
  virtual std::uint64_t bytes_received() const = 0;

  /// Bytes of all frames that send() has accepted so far.
  virtual std::uint64_t bytes_accepted() const = 0;

  /// How many of the accepted bytes have reached the other side's machine, that is, wait neither here nor on the wire.
  /// Must be called on the strand.
  virtual std::uint64_t bytes_acknowledged() const = 0;
};

/// Accepts links until destroyed.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual Endpoint endpoint() const = 0;  ///< with the real port
};

/// How processes reach each other: TCP, or in-process for tests.
class Transport {
 public:
  using Accept = std::function<void(std::shared_ptr<Link>)>;

  virtual ~Transport() = default;

  /// Calls `accept` for each link that comes in. Fails with: io, invalid_argument.
  virtual Result<std::unique_ptr<Listener>> listen(net::any_io_executor executor, const Endpoint& at,
                                                   Accept accept) = 0;

  /// Fails with: io (nobody listens, unknown host), deadline_exceeded (no answer), cancelled.
  virtual net::awaitable<Result<std::shared_ptr<Link>>> connect(Endpoint to) = 0;
};

}  // namespace weir::runtime
