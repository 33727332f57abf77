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
Result<Bytes> room_for(std::uint64_t count) {
  try {
    return Bytes(count, boost::container::default_init);
  } catch (const std::bad_alloc&) {
    return Error{Errc::exhausted, "no memory for " + std::to_string(count) + " bytes"};
  }
}

}  // namespace

Result<DataFile> DataFile::open(const std::string& path) {
  // Opening a named pipe would otherwise wait for somebody to write to it.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(*file, &status) != 0) return failed(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::malformed, path + " is not a file"};
  return DataFile(std::move(file), static_cast<std::uint64_t>(status.st_size));
}

Result<void> DataFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const auto want = std::min<std::uint64_t>(into.size(), chunk_bytes);
    const auto got = ::pread(*descriptor_, into.data(), want, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io, std::strerror(errno)};
    if (got == 0) {
      return Error{Errc::malformed, "it has no byte " + std::to_string(offset) + ", and had " + std::to_string(size_) +
                                        " bytes when it was opened: it was shortened while it was read"};
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<Segment> DataFile::read(std::uint64_t offset, std::uint64_t count) const {
  auto bytes = room_for(count);
  if (!bytes) return bytes.error();
  if (auto done = read(offset, std::span(*bytes)); !done) return done.error();
  return Segment::own(std::move(*bytes));
}

Result<Segment> read_data_file(const std::string& path, std::uint64_t bytes_max) {
  const auto file = DataFile::open(path);
  if (!file) return file.error();
  if (file->size() > bytes_max) {
    return Error{Errc::malformed, path + " has " + std::to_string(file->size()) + " bytes; at most " +
                                      std::to_string(bytes_max) + " are read"};
  }
  auto bytes = file->read(0, file->size());
  if (!bytes) return bytes.error().within(path);
  return bytes;
}

}  // namespace weir::training
