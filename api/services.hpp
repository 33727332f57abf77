#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "api/access.hpp"
#include "api/connection_table.hpp"
#include "cluster/head.hpp"

namespace weir::api {

/// Limits on what a client may use. The times limit how long the server waits for a client; handlers have their own.
struct Limits {
  std::size_t header_bytes_max = 8 * 1024;
  std::size_t body_bytes_max = 1024 * 1024;
  /// Open connections of clients that have proven that they know the token; one more is answered with 503.
  std::size_t clients_max = 4096;
  /// Open connections of others; one more displaces another, see ConnectionTable.
  std::size_t strangers_max = 256;
  /// For a stranger's header to be complete, from when the server begins to wait for it.
  std::chrono::milliseconds stranger_deadline = std::chrono::seconds(5);
  std::chrono::milliseconds idle_deadline = std::chrono::seconds(75);    ///< for a request to begin
  std::chrono::milliseconds header_deadline = std::chrono::seconds(10);  ///< for a header to be complete
  std::chrono::milliseconds body_deadline = std::chrono::seconds(30);    ///< for a body to be complete
  std::chrono::milliseconds write_deadline = std::chrono::seconds(30);   ///< for a piece of an answer to be sent
  std::chrono::milliseconds heartbeat = std::chrono::seconds(15);        ///< between beats of a silent stream
};

/// Counts of answered requests, for /metrics. Thread-safe.
class Traffic {
 public:
  struct Row {
    std::uint64_t requests = 0;
    double seconds = 0;
  };
  /// Rows by method, route pattern ("" = none matched) and status.
  using Rows = std::map<std::tuple<std::string, std::string, unsigned>, Row>;

  void add(const std::string& method, std::string_view pattern, unsigned status, double seconds);
  Rows rows() const;

  std::atomic<std::uint64_t> connections = 0;  ///< open now
  std::atomic<std::uint64_t> streams = 0;      ///< event streams open now
  std::atomic<std::uint64_t> sent_bytes = 0;   ///< bodies, since the start

 private:
  mutable std::mutex mutex_;
  Rows rows_;
};

/// The objects that handlers work with. Owned by the Server; outlives every connection.
struct Services {
  cluster::Head& head;
  Access access;
  Limits limits;
  std::string version;
  bool insecure = false;
  std::string openapi;  ///< the whole document
  cluster::Time started_at;
  net::any_io_executor blocking;       ///< threads that may wait for a disk
  std::atomic<bool> stopping = false;  ///< if set, every answer is the last of its connection
  Traffic traffic;
  ConnectionTable connections;
};

}  // namespace weir::api
