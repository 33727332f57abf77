#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::cluster {

/// The file in a data directory that holds the secret of nodes.
inline constexpr std::string_view node_secret_file = "node_secret";

/// The data directory of a head, locked by this process: `token`, `node_secret`, `sessions.json`, `weir.db`,
/// `jobs/<id>/...`, `endpoints.json`, `lock`. The lock ends with the process, however it dies.
class DataDir {
 public:
  /// Creates the directory (mode 0700) if needed and locks it. One that is there keeps its mode: then the umask that
  /// files are made with determines whether others may read them. Fails with: io (cannot be created or opened),
  /// conflict (another head uses it; the text has its process id).
  static Result<DataDir> open(std::filesystem::path path);

  /// Whether a head holds the data directory `path` at this moment; nothing if that cannot be seen, as of another
  /// user's. Takes no lock, and makes no file.
  static std::optional<bool> is_held(const std::filesystem::path& path);

  DataDir(DataDir&& other) noexcept;
  DataDir& operator=(DataDir&& other) noexcept;
  ~DataDir();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path store_file() const { return path_ / "weir.db"; }

  /// token(): the token of the HTTP API, from `<data-dir>/token`. node_secret(): the secret of nodes, from
  /// `<data-dir>/node_secret`. Each is created (256 bits, hexadecimal, mode 0600) if there is no such file. Neither is
  /// accepted in place of the other.
  /// Fails with: io, malformed (the file is empty or too long), conflict (others may read the file; the text says how
  /// to fix that).
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

/// Reads a secret from a file as DataDir writes it. Fails with: not_found, io, malformed (empty or too long), conflict
/// (others may read the file; the text says how to fix that).
Result<std::string> read_secret_file(const std::filesystem::path& file);

/// Replaces a file so that a crash at any time leaves the old or the new one: temp file beside it, fsync, rename,
/// fsync of the directory. `pieces`: what it will hold, one after the other. Fails with: io, exhausted (disk full).
Result<void> write_file_atomically(const std::filesystem::path& file, std::span<const BytesView> pieces,
                                   unsigned mode = 0644);
Result<void> write_file_atomically(const std::filesystem::path& file, std::string_view text, unsigned mode = 0644);

}  // namespace weir::cluster
