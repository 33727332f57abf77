#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace weir::cluster {

/// Thrown by Database and Statement; caught where it is converted to a Result.
struct SqliteFailure {
  Error error;
};

class Statement;

/// One SQLite connection. Used by one thread at a time.
class Database {
 public:
  /// Throws SqliteFailure. `query_only` refuses every write on this connection.
  Database(const std::filesystem::path& file, bool query_only);

  void execute(const std::string& sql);

  /// A prepared statement, ready to bind; cached for the next time. The reference may be used until the same statement
  /// is prepared again.
  Statement& prepare(std::string_view sql);

  std::int64_t integer(std::string_view sql);  ///< first column of the first row
  /// Resets all statements, so that none of them holds a snapshot of the file.
  void reset_statements();

  std::int64_t last_insert_rowid() const;
  bool in_transaction() const;

  /// To be called right after the call of SQLite that has returned `code`. Throws: exhausted (no room, or another
  /// program holds the file; it may be tried again), conflict (a row that must not be twice), internal, io.
  [[noreturn]] void fail(int code, std::string_view what) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::unordered_map<std::string, std::unique_ptr<Statement>> statements_;
};

/// A prepared statement. bind() in order of the parameters, then step() for each row; column getters in order, too.
class Statement {
 public:
  Statement(Database& database, sqlite3_stmt* handle) : database_(database), handle_(handle) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::int64_t value);
  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(std::uint32_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(std::int32_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(double value);  ///< a NaN is stored as null
  Statement& bind(std::string_view value);
  Statement& bind(std::nullopt_t);
  template <class T>
  Statement& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind(std::nullopt);
  }

  /// Advances to the next row. Returns false after the last.
  bool step();
  /// Runs a statement that returns no rows.
  void run();

  bool is_null() const;  ///< of the next column
  std::int64_t integer();
  double real();  ///< NaN for null
  std::string text();
  std::optional<std::int64_t> optional_integer();

  void reset();

 private:
  Database& database_;
  sqlite3_stmt* handle_;
  int parameter_ = 0;
  int column_ = 0;
};

}  // namespace weir::cluster
