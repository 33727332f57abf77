#include "cluster/store/sqlite.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <limits>

#include "base/errc.hpp"

namespace weir::cluster {
namespace {

/// `number` is the errno of the call that failed. What passes by itself, or once somebody has made room, is exhausted.
Errc kind_of(int code, int number) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_NOMEM: return Errc::exhausted;
    case SQLITE_IOERR: {
      const bool is_full = number == ENOSPC || number == EDQUOT;  // SQLITE_FULL is only said of ENOSPC in a write
      return is_full || code == SQLITE_IOERR_NOMEM ? Errc::exhausted : Errc::io;
    }
    case SQLITE_CONSTRAINT: return Errc::conflict;
    case SQLITE_MISUSE:
    case SQLITE_ERROR: return Errc::internal;
    default: return Errc::io;
  }
}

}  // namespace

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close(handle); }

Database::Database(const std::filesystem::path& file, bool query_only) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (query_only ? 0 : SQLITE_OPEN_CREATE);
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) fail(code, "opening " + file.string());
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 5000);
  execute("PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON");
  execute(query_only ? "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0"
                     : "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, sql.substr(0, 60));
}

Statement& Database::prepare(std::string_view sql) {
  std::string text(sql);
  auto kept = statements_.find(text);
  if (kept == statements_.end()) {
    sqlite3_stmt* handle = nullptr;
    const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
    if (code != SQLITE_OK) fail(code, sql.substr(0, 60));
    kept = statements_.emplace(std::move(text), std::make_unique<Statement>(*this, handle)).first;
  }
  kept->second->reset();
  return *kept->second;
}

std::int64_t Database::integer(std::string_view sql) {
  Statement& statement = prepare(sql);
  const std::int64_t value = statement.step() ? statement.integer() : 0;
  statement.reset();
  return value;
}

void Database::reset_statements() {
  for (auto& [sql, statement] : statements_) statement->reset();
}

std::int64_t Database::last_insert_rowid() const { return sqlite3_last_insert_rowid(handle_.get()); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }

void Database::fail(int code, std::string_view what) const {
  const int number = errno;  // sqlite3_system_errno() does not know it when a COMMIT has failed
  const char* message = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  throw SqliteFailure{{kind_of(code, number), "store: " + std::string(message) + " (" + std::string(what) + ")"}};
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(handle_, ++parameter_, value);
  return *this;
}

Statement& Statement::bind(double value) {
  sqlite3_bind_double(handle_, ++parameter_, value);
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();
  sqlite3_bind_text64(handle_, ++parameter_, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(std::nullopt_t) {
  sqlite3_bind_null(handle_, ++parameter_);
  return *this;
}

bool Statement::step() {
  column_ = 0;
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  try {
    database_.fail(code, sqlite3_sql(handle_));
  } catch (...) {
    reset();
    throw;
  }
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

bool Statement::is_null() const { return sqlite3_column_type(handle_, column_) == SQLITE_NULL; }
std::int64_t Statement::integer() { return sqlite3_column_int64(handle_, column_++); }

double Statement::real() {
  if (is_null()) {
    ++column_;
    return std::numeric_limits<double>::quiet_NaN();
  }
  return sqlite3_column_double(handle_, column_++);
}

std::string Statement::text() {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column_));
  const int size = sqlite3_column_bytes(handle_, column_++);
  return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(size));
}

std::optional<std::int64_t> Statement::optional_integer() {
  if (is_null()) {
    ++column_;
    return std::nullopt;
  }
  return integer();
}

void Statement::reset() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
  parameter_ = 0;
  column_ = 0;
}

}  // namespace weir::cluster
