#include "cluster/data_dir.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "base/descriptor.hpp"
#include "base/errc.hpp"
#include "base/hmac.hpp"
#include "base/io_error.hpp"

namespace weir::cluster {
namespace {

constexpr std::size_t secret_bytes_max = 4096;

Result<void> write_all(int fd, BytesView bytes, const std::string& what) {
  while (!bytes.empty()) {
    const auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("writing " + what);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

/// Reads at most `limit` + 1 bytes; a longer text than `limit` means that there is more.
Result<std::string> read_some(int fd, std::size_t limit, const std::string& what) {
  std::string text(limit + 1, '\0');
  const auto count = ::read(fd, text.data(), text.size());
  if (count < 0) return io_error("reading " + what);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

/// A lock of the open file description, as flock() makes them: it ends when the last descriptor of it is closed.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<void> write_file_atomically(const std::filesystem::path& file, std::string_view text, unsigned mode) {
  const BytesView bytes = std::as_bytes(std::span(text));
  return write_file_atomically(file, std::span(&bytes, 1), mode);
}

Result<void> write_file_atomically(const std::filesystem::path& file, std::span<const BytesView> pieces,
                                   unsigned mode) {
  const std::filesystem::path temporary = file.string() + ".new";
  const auto remove = [&temporary](Error why) {  // what is left of it would take the room that there is
    ::unlink(temporary.c_str());
    return why;
  };
  Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd) return io_error("creating " + temporary.string());
  for (const BytesView piece : pieces) {
    if (auto written = write_all(*fd, piece, temporary.string()); !written) return remove(written.error());
  }
  if (::fsync(*fd) != 0) return remove(io_error("writing " + temporary.string()));
  fd.close();
  if (::rename(temporary.c_str(), file.c_str()) != 0) return remove(io_error("renaming " + temporary.string()));
  const Descriptor directory(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(*directory) != 0) return io_error("writing " + file.parent_path().string());
  return {};
}

std::optional<bool> DataDir::is_held(const std::filesystem::path& path) {
  const Descriptor fd(::open((path / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return false;
  struct flock found = whole_file(F_RDLCK);
  if (!fd || ::fcntl(*fd, F_OFD_GETLK, &found) != 0) return std::nullopt;
  return found.l_type != F_UNLCK;
}

Result<DataDir> DataDir::open(std::filesystem::path path) {
  std::error_code error;
  path = std::filesystem::absolute(path, error);
  const bool made = std::filesystem::create_directories(path, error);
  if (error) return Error{Errc::io, "making the data directory " + path.string() + ": " + error.message()};
  if (made) std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);

  const auto lock = path / "lock";
  Descriptor fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return io_error("opening " + lock.string());
  if (::flock(*fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return io_error("locking " + lock.string());
    const auto holder = read_some(*fd, 32, lock.string());
    return Error{Errc::conflict, "another head (process " + (holder ? *holder : std::string("?")) + ") uses " +
                                     path.string() + "; stop it or choose another --data-dir"};
  }
  // flock() can only be tried, and a command that tried would keep a head from starting meanwhile. This second lock can
  // be asked for, see is_held(). Where the file system has no such locks, nobody learns of it.
  struct flock held = whole_file(F_WRLCK);
  static_cast<void>(::fcntl(*fd, F_OFD_SETLK, &held));
  // On a full disk this fails. It is only for the message above.
  const std::string pid = std::to_string(::getpid());
  const bool told = ::ftruncate(*fd, 0) == 0 && write_all(*fd, std::as_bytes(std::span(pid)), lock.string());
  static_cast<void>(told);
  return DataDir(std::move(path), fd.release());
}

DataDir::DataDir(DataDir&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

DataDir& DataDir::operator=(DataDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  return *this;
}

DataDir::~DataDir() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Result<std::string> DataDir::token() const { return secret("token"); }

Result<std::string> DataDir::node_secret() const { return secret(node_secret_file); }

Result<std::string> DataDir::secret(std::string_view name) const {
  const auto file = path_ / name;
  auto found = read_secret_file(file);
  if (found || found.error().code != Errc::not_found) return found;
  std::string made = hex(random_digest());
  if (auto written = write_file_atomically(file, made + "\n", 0600); !written) return written.error();
  return made;
}

Result<void> DataDir::publish_endpoints(const std::string& control, const std::string& http) const {
  const nlohmann::json endpoints = {{"control", control}, {"http", http}, {"pid", ::getpid()}};
  return write_file_atomically(path_ / "endpoints.json", endpoints.dump() + "\n");
}

Result<std::string> read_secret_file(const std::filesystem::path& file) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Error{Errc::not_found, "there is no file " + file.string()};
  if (!fd) return io_error("opening " + file.string());
  struct stat status {};
  if (::fstat(*fd, &status) != 0) return io_error("reading " + file.string());
  if ((status.st_mode & 077) != 0) {
    return Error{Errc::conflict, file.string() + " can be read by others; make it yours: chmod 600 " + file.string()};
  }
  auto text = read_some(*fd, secret_bytes_max, file.string());
  if (!text) return text;
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  if (text->empty() || text->size() > secret_bytes_max) {
    return Error{Errc::malformed, file.string() + " holds no secret; remove it, and a head makes a new one"};
  }
  return text;
}

}  // namespace weir::cluster
