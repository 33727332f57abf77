#pragma once

#include <vector>

#include "cluster/store.hpp"
#include "cluster/store/sqlite.hpp"

namespace weir::cluster {

/// Applies one change inside the open transaction and appends what it puts on the stream. Throws SqliteFailure.
void apply(Database& database, const Change& change, std::vector<StreamItem>& published);

/// Drops the oldest items of the stream until it has at most `items_max`, with at most `bytes_max` bytes of data; the
/// newest item always stays.
void trim_stream(Database& database, std::uint64_t items_max, std::uint64_t bytes_max);

}  // namespace weir::cluster
