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

/// What a subscriber wants to hear: "cluster", "jobs", "job:ID", "logs:ID".
class Topics {
 public:
  /// From a comma-separated list. Fails with: invalid_argument (empty, unknown, more than 64).
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

/// One subscriber's place in the stream. It may be used from any executor, by one coroutine at a time; destroying it
/// ends the subscription. Items come in sequence order without gap or repeat. A slow subscriber costs little: what its
/// queue, which is bounded in items and bytes, could not hold is read again from the store.
class Subscription {
 public:
  struct Batch {
    /// The place asked for is no longer in the store: the reader must fetch the present state anew; items go on from
    /// `sequence`.
    bool reset = false;
    std::uint64_t sequence = 0;  ///< place after this batch (what `after` would be to go on from here)
    std::vector<StreamItem> items;
  };

  virtual ~Subscription() = default;

  /// The next items, at most 256 with at most 1 MiB of data together (the first one whatever its size); an empty batch
  /// if nothing came within `patience` (send a comment to keep the connection open). Fails with: cancelled (closed,
  /// or the head stops), and what the store fails with.
  virtual net::awaitable<Result<Batch>> next(std::chrono::milliseconds patience) = 0;

  /// Ends a next() that waits, and every later one, with cancelled. Any thread.
  virtual void close() = 0;
};

}  // namespace weir::cluster
