#include "training/datasets/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/errc.hpp"

namespace weir::training {
namespace {

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

}  // namespace

Result<Segment> map_file(const std::string& path, std::uint64_t bytes_max) {
  // Opening a named pipe would otherwise wait for somebody to write to it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return failed(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::malformed, path + " is not a file"};
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > bytes_max) {
    return Error{Errc::malformed,
                 path + " has " + std::to_string(bytes) + " bytes; at most " + std::to_string(bytes_max) + " are read"};
  }
  if (bytes == 0) return Segment();
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return failed(path, errno);
  std::shared_ptr<const void> owner(at, [bytes](const void* start) { ::munmap(const_cast<void*>(start), bytes); });
  return Segment(std::move(owner), BytesView(static_cast<const std::byte*>(at), bytes));
}

}  // namespace weir::training
