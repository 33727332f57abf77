#include "cluster/store/migrations.hpp"

#include <array>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "cluster/store/migration_0001.hpp"
#include "cluster/store/migration_0002.hpp"
#include "cluster/store/migration_0003.hpp"
#include "cluster/store/migration_0004.hpp"
#include "cluster/store/migration_0005.hpp"
#include "cluster/store/migration_0006.hpp"

namespace weir::cluster {
namespace {

/// Numbered from 1. A migration that has been released never changes; a new one goes to the end.
constexpr std::array migrations = {migration_0001, migration_0002, migration_0003,
                                   migration_0004, migration_0005, migration_0006};

constexpr std::int64_t application_id = 0x77656972;  // "weir"

void apply_from(std::size_t version, Database& database) {
  for (auto next = version; next < migrations.size(); ++next) {
    database.execute("BEGIN IMMEDIATE");
    database.execute(std::string(migrations[next]));
    database.execute("PRAGMA application_id = " + std::to_string(application_id));
    database.execute("PRAGMA user_version = " + std::to_string(next + 1));
    database.execute("COMMIT");
  }
}

/// The statements that made the tables and indexes of a file, in order of their names; without the tables that SQLite
/// makes for itself, as for ANALYZE.
std::vector<std::string> schema_of(Database& database) {
  std::vector<std::string> found;
  Statement& statement = database.prepare(
      "SELECT name || ': ' || sql FROM sqlite_schema"
      " WHERE sql NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1");
  while (statement.step()) found.push_back(statement.text());
  statement.reset();
  return found;
}

}  // namespace

void migrate(Database& database) {
  const auto version = database.integer("PRAGMA user_version");
  const auto owner = database.integer("PRAGMA application_id");
  if (owner != application_id && (version != 0 || database.integer("SELECT count(*) FROM sqlite_schema") != 0)) {
    throw SqliteFailure{{Errc::io, "store: the file is a database of another program"}};
  }
  if (version > static_cast<std::int64_t>(migrations.size())) {
    throw SqliteFailure{{Errc::unsupported, "store: the file has schema version " + std::to_string(version) +
                                                ", written by a newer weir; this one knows " +
                                                std::to_string(migrations.size()) +
                                                ". Upgrade weir, or use another data directory"}};
  }
  apply_from(static_cast<std::size_t>(version), database);
  Database expected(":memory:", false);
  apply_from(0, expected);
  if (schema_of(database) != schema_of(expected)) {
    throw SqliteFailure{{Errc::unsupported, "store: the file's tables are not those of schema version " +
                                                std::to_string(migrations.size()) +
                                                ": an unreleased weir wrote it, or somebody changed them. Use another "
                                                "data directory"}};
  }
}

}  // namespace weir::cluster
