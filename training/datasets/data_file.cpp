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

Result<Descriptor> open_data_file(const std::string& path) {
  // Opening a named pipe would otherwise wait for somebody to write to it.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(*file, &status) != 0) return failed(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::malformed, path + " is not a file"};
  return file;
}

Result<Segment> read_data_file(const std::string& path, std::uint64_t bytes_max) {
  const auto file = open_data_file(path);
  if (!file) return file.error();
  struct stat status {};
  if (::fstat(**file, &status) != 0) return failed(path, errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > bytes_max) {
    return Error{Errc::malformed,
                 path + " has " + std::to_string(size) + " bytes; at most " + std::to_string(bytes_max) + " are read"};
  }
  auto bytes = room_for(size, path);
  if (!bytes) return bytes.error();
  for (std::uint64_t done = 0; done < size;) {
    const auto want = std::min(size - done, chunk_bytes);
    const auto got = ::pread(**file, bytes->data() + done, want, static_cast<off_t>(done));
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
