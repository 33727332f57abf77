#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <memory>

#include "base/result.hpp"
#include "cluster/store.hpp"

namespace weir::cluster {

struct SqliteStoreOptions {
  std::filesystem::path file;  ///< created if absent; `-wal` and `-shm` files are beside it
  /// Stream items beyond either bound are dropped, oldest first; a reader further behind gets a reset.
  std::uint64_t stream_items_max = 50'000;
  std::uint64_t stream_bytes_max = 64 << 20;
  /// Events of the cluster that stay at least, the newest ones. They are trimmed when a tenth as many have come.
  std::uint64_t cluster_events_max = 100'000;
  std::uint32_t readers = 3;  ///< query_only connections
  /// Rows of removed jobs, or events, that are deleted in one transaction, so that what else is to be committed does
  /// not wait long.
  std::uint32_t cleared_rows_max = 20'000;
};

/// Opens the production Store: one SQLite file in WAL mode with synchronous=FULL. One connection writes, on `writer`,
/// which must run one thing at a time; commits that wait together share one transaction and one fsync. Reads run on
/// `reader` over query_only connections, those of metrics and traffic, which may take seconds, on `heavy` if there is
/// one. In tests all are one executor, so that everything happens in a fixed order.
/// Fails with: io (cannot open, damaged), exhausted (disk full), unsupported (the file was written by a newer weir).
Result<std::shared_ptr<Store>> open_sqlite_store(SqliteStoreOptions options, net::any_io_executor writer,
                                                 net::any_io_executor reader, net::any_io_executor heavy = {});

}  // namespace weir::cluster
