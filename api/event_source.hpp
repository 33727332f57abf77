#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/http.hpp"
#include "cluster/records.hpp"
#include "cluster/stream.hpp"

namespace weir::api {

/// Sends a subscription as server-sent events. Nothing is queued here: the next batch is fetched when the client has
/// received the last one, and the connection's write deadline ends a client that does not read.
class EventSource final : public BodySource {
 public:
  struct Options {
    std::chrono::milliseconds heartbeat{};  ///< between the beats of a silent stream
    /// How long the last lines of the log may take to arrive after the job's end; 0 if no log was asked for.
    std::chrono::milliseconds log_patience{};
    /// Set if the job of an `ends_with_job` stream had ended when the stream began.
    std::optional<cluster::JobRecord> ended_job;
    /// The stream is about one job alone: after the job's end and the last lines of its log, the terminal record is
    /// sent and the stream ends. It also ends if the job is deleted.
    bool ends_with_job = false;
    /// Whether the client may still read; empty: always. Asked before each piece is sent: a silent stream of a client
    /// that may no longer ends at its next heartbeat.
    std::function<bool()> admitted;
  };

  EventSource(std::unique_ptr<cluster::Subscription> subscription, Options options,
              std::atomic<std::uint64_t>& open_streams);
  ~EventSource() override;

  net::awaitable<Result<std::string>> next() override;
  void finish() override { subscription_->close(); }

 private:
  bool admitted() const { return !options_.admitted || options_.admitted(); }
  std::string beat(std::uint64_t place);
  std::string write(cluster::Subscription::Batch batch);
  std::string event(const cluster::StreamItem& item);
  std::string terminal_record();

  std::unique_ptr<cluster::Subscription> subscription_;
  Options options_;
  std::atomic<std::uint64_t>& open_streams_;
  std::optional<cluster::StreamItem> end_;  ///< the terminal record, held back until the log is out
  std::uint64_t place_ = 0;                 ///< the last id that was sent
  bool begun_ = false;
  bool finished_ = false;
};

}  // namespace weir::api
