#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::cluster {

/// The file in a data directory with what nodes must know to join.
inline constexpr std::string_view node_secret_file = "node_secret";

/// The directory a head lives in, held by this process alone: `token`, `node_secret`, `sessions.json`, `weir.db`,
/// `jobs/<id>/...`, `endpoints.json`, `lock`. The lock falls with the process, however it dies.
class DataDir {
 public:
  /// Makes the directory (mode 0700) and takes its lock. Fails with: io (cannot be made or written), conflict (another
  /// head uses it; says its process id).
  static Result<DataDir> open(std::filesystem::path path);

  DataDir(DataDir&& other) noexcept;
  DataDir& operator=(DataDir&& other) noexcept;
  ~DataDir();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path store_file() const { return path_ / "weir.db"; }

  /// What the HTTP API asks for, from `<data-dir>/token`, and what nodes prove to join, from `<data-dir>/node_secret`;
  /// each made (256 bits, hexadecimal, mode 0600) if there is none. Neither does for the other.
  /// Fails with: io, malformed (the file is empty or too long), conflict (others may read the file; says how to fix).
  Result<std::string> token() const;
  Result<std::string> node_secret() const;

  /// Writes `endpoints.json`: where this head listens, for commands on this machine.
  Result<void> publish_endpoints(const std::string& control, const std::string& http) const;

 private:
  Result<std::string> secret(std::string_view name) const;

  DataDir(std::filesystem::path path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::filesystem::path path_;
  int lock_fd_ = -1;
};

/// The secret in a file, as DataDir writes them. Fails with: not_found, io, malformed (empty or too long), conflict
/// (others may read the file; says how to fix).
Result<std::string> read_secret_file(const std::filesystem::path& file);

/// Replaces a file so that a crash at any time leaves the old or the new one: temp file beside it, fsync, rename,
/// fsync of the directory. Fails with: io, exhausted (disk full).
Result<void> write_file_atomically(const std::filesystem::path& file, std::string_view bytes, unsigned mode = 0644);

}  // namespace weir::cluster
