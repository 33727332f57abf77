#pragma once

#include <vector>

#include "cluster/store.hpp"
#include "cluster/store/sqlite.hpp"

namespace weir::cluster {

/// Applies one change inside the open transaction and appends what it puts on the stream. Throws SqliteFailure.
void apply(Database& database, const Change& change, std::vector<StreamItem>& published);

/// Drops all but the newest `items_max` items of the stream.
void trim_stream(Database& database, std::uint64_t items_max);

}  // namespace weir::cluster
