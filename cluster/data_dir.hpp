#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::cluster {

/// The directory a head lives in, held by this process alone: `token`, `weir.db`, `jobs/<id>/...`, `endpoints.json`,
/// `lock`. The lock falls with the process, however it dies.
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

  /// The token in `<data-dir>/token`; made (256 bits, hexadecimal, mode 0600) if there is none.
  /// Fails with: io, malformed (the file is empty or too long), conflict (others may read the file; says how to fix).
  Result<std::string> token() const;

  /// Writes `endpoints.json`: where this head listens, for commands on this machine.
  Result<void> publish_endpoints(const std::string& control, const std::string& http) const;

 private:
  DataDir(std::filesystem::path path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::filesystem::path path_;
  int lock_fd_ = -1;
};

/// The token a command on this machine finds in a data directory it does not hold. Fails with: not_found, io.
Result<std::string> read_token(const std::filesystem::path& data_dir);

/// Replaces a file so that a crash at any time leaves the old or the new one: temp file beside it, fsync, rename,
/// fsync of the directory. Fails with: io, exhausted (disk full).
Result<void> write_file_atomically(const std::filesystem::path& file, std::string_view bytes, unsigned mode = 0644);

}  // namespace weir::cluster
