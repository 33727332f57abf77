#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cluster/records.hpp"

namespace weir::cluster {

namespace net = boost::asio;

/// The topics of a subscription: "cluster", "jobs", "job:ID", "logs:ID".
class Topics {
 public:
  /// Parses a comma-separated list. Fails with: invalid_argument (empty, unknown, more than 64).
  static Result<Topics> parse(std::string_view list);

  bool match(StreamKind kind, std::string_view job_id) const;

  bool jobs() const { return jobs_; }
  const std::vector<std::string>& job_ids() const { return job_ids_; }

 private:
  bool cluster_ = false;
  bool jobs_ = false;
  std::vector<std::string> job_ids_;
  std::vector<std::string> log_ids_;
};

/// One subscriber's position in the stream. It may be used from any executor, by one coroutine at a time; destroying it
/// ends the subscription. Items come in sequence order without gap or repeat. A slow subscriber costs little: its queue
/// is bounded in items and bytes, and what it could not hold is read again from the store.
class Subscription {
 public:
  struct Batch {
    /// The requested position is no longer in the store: the reader must fetch the present state anew; items continue
    /// after `sequence`.
    bool reset = false;
    std::uint64_t sequence = 0;  ///< position after this batch (the `after` to continue from here)
    std::vector<StreamItem> items;
  };

  virtual ~Subscription() = default;

  /// The next items, at most 256 with at most 1 MiB of data together (the first one whatever its size); an empty batch
  /// if nothing came within `patience` (send something to keep the connection open). Fails with: cancelled (closed, or
  /// the head stops), and the errors of the store.
  virtual net::awaitable<Result<Batch>> next(std::chrono::milliseconds patience) = 0;

  /// The position after which next() goes on: the `after` to continue from here.
  virtual std::uint64_t place() = 0;

  /// Makes a waiting next() and every later one fail with cancelled. Thread-safe.
  virtual void close() = 0;
};

}  // namespace weir::cluster
