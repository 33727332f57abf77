#include "training/datasets/data_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/errc.hpp"

namespace weir::training {
namespace {

constexpr std::uint64_t chunk_bytes = std::uint64_t{8} << 20;

/// An open file.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error failed(const std::string& path, int why) {
  return {why == ENOENT || why == ENOTDIR ? Errc::not_found : Errc::io, path + ": " + std::strerror(why)};
}

/// Memory for so many bytes, which takes none before they are written.
Result<Bytes> room_for(std::uint64_t bytes, const std::string& path) {
  try {
    return Bytes(bytes, boost::container::default_init);
  } catch (const std::bad_alloc&) {
    return Error{Errc::exhausted, path + ": no memory for its " + std::to_string(bytes) + " bytes"};
  }
}

}  // namespace

Result<Segment> read_data_file(const std::string& path, std::uint64_t bytes_max) {
  // Opening a named pipe would otherwise wait for somebody to write to it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return failed(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::malformed, path + " is not a file"};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > bytes_max) {
    return Error{Errc::malformed,
                 path + " has " + std::to_string(size) + " bytes; at most " + std::to_string(bytes_max) + " are read"};
  }
  auto bytes = room_for(size, path);
  if (!bytes) return bytes.error();
  for (std::uint64_t done = 0; done < size;) {
    const auto want = std::min(size - done, chunk_bytes);
    const auto got = ::pread(file.get(), bytes->data() + done, want, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path, errno);
    if (got == 0) {
      return Error{Errc::malformed, path + " ended after " + std::to_string(done) + " of " + std::to_string(size) +
                                        " bytes: it was shortened while it was read"};
    }
    done += static_cast<std::uint64_t>(got);
  }
  return Segment::own(std::move(*bytes));
}

}  // namespace weir::training
