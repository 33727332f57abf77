#pragma once

#include "cluster/store/sqlite.hpp"

namespace weir::cluster {

/// Brings the file to this build's schema, one numbered migration per transaction. Throws SqliteFailure: unsupported if
/// a newer weir wrote the file or its tables are not those of the schema version it states, io if it is some other
/// program's database.
void migrate(Database& database);

}  // namespace weir::cluster
