#include "api/file_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errc.hpp"
#include "runtime/on.hpp"

namespace weir::api {
namespace {

constexpr std::size_t piece_bytes = 256 * 1024;

/// Owns a file descriptor and closes it.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& what) { return {Errc::io, what + ": " + std::strerror(errno)}; }

net::awaitable<Result<std::string>> read_piece(int fd, std::size_t size) {
  std::string piece(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const auto got = ::read(fd, piece.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) co_return system_error("cannot read the file");
    if (got == 0) co_return Error{Errc::io, "the file became shorter while it was sent"};
    have += static_cast<std::size_t>(got);
  }
  co_return piece;
}

class FileSource final : public BodySource {
 public:
  FileSource(File file, std::uint64_t size, net::any_io_executor blocking)
      : file_(std::move(file)), left_(size), blocking_(std::move(blocking)) {}

  net::awaitable<Result<std::string>> next() override {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, piece_bytes));
    if (size == 0) co_return std::string();
    auto reading = read_piece(file_.fd(), size);
    auto piece = co_await runtime::on(blocking_, std::move(reading));
    left_ -= size;
    co_return piece;
  }

 private:
  File file_;
  std::uint64_t left_;
  net::any_io_executor blocking_;
};

}  // namespace

Result<Reply::Streamed> open_file(const std::filesystem::path& path, net::any_io_executor blocking) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd() < 0 && errno == ENOENT) return Error{Errc::not_found, "the file is no longer there"};
  if (file.fd() < 0) return system_error("cannot open the file");
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) return system_error("cannot read the file");
  if (!S_ISREG(status.st_mode)) return Error{Errc::not_found, "not a regular file"};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return Reply::Streamed{std::make_unique<FileSource>(std::move(file), size, std::move(blocking)), size};
}

}  // namespace weir::api
