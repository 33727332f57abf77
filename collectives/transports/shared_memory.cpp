#include "collectives/transports/shared_memory.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::collectives {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::size_t rings_bytes = 4096;  ///< both SharedRing, at the beginning
static_assert(2 * sizeof(SharedRing) <= rings_bytes);

constexpr std::size_t capacity_min = 4096;
constexpr std::size_t capacity_max = 1 << 30;

/// Nobody can make the memory smaller, which would kill whoever touches what is missing.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Bytes after which the other side is told, so that both copy at the same time.
constexpr std::size_t stretch_bytes = 64 * 1024;

std::size_t size_of(std::size_t capacity) { return rings_bytes + 2 * capacity; }

Result<std::byte*> map(const Descriptor& descriptor, std::size_t capacity) {
  void* begin = ::mmap(nullptr, size_of(capacity), PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
  if (begin == MAP_FAILED) return Error{Errc::exhausted, "no address space for shared memory"};
  return static_cast<std::byte*>(begin);
}

/// Calls copy(in_ring, in_part, bytes) for what lies in one piece in both: `size` bytes of the ring from `position` on,
/// and as many of the parts, one after the other, behind the first `skip`.
template <class Copy>
void for_pieces(std::span<std::byte> ring, std::uint64_t position, std::span<const iovec> parts, std::size_t skip,
                std::size_t size, const Copy& copy) {
  for (const iovec& part : parts) {
    const std::size_t skipped = std::min(skip, part.iov_len);
    skip -= skipped;
    std::byte* in_part = static_cast<std::byte*>(part.iov_base) + skipped;
    std::size_t left = std::min(part.iov_len - skipped, size);
    size -= left;
    while (left > 0) {
      const std::size_t begin = position & (ring.size() - 1);
      const std::size_t bytes = std::min(left, ring.size() - begin);
      copy(ring.data() + begin, in_part, bytes);
      position += bytes;
      in_part += bytes;
      left -= bytes;
    }
  }
}

std::size_t size_of(std::span<const iovec> parts) {
  std::size_t total = 0;
  for (const iovec& part : parts) total += part.iov_len;
  return total;
}

Error corrupt() { return {Errc::malformed, "shared memory with impossible positions"}; }

}  // namespace

SharedMemory::SharedMemory(Descriptor descriptor, std::byte* begin, std::size_t capacity)
    : descriptor_(std::move(descriptor)), begin_(begin), capacity_(capacity) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      begin_(std::exchange(other.begin_, nullptr)),
      capacity_(other.capacity_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(begin_, other.begin_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (begin_ != nullptr) ::munmap(begin_, size_of(capacity_));
}

Result<SharedMemory> SharedMemory::create(std::size_t capacity) {
  ensure(std::has_single_bit(capacity) && capacity >= capacity_min && capacity <= capacity_max,
         "a ring's capacity is a power of two");
  Descriptor descriptor(::memfd_create("weir gradients", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // With its pages, so that none is missing when it is touched.
  if (!descriptor || ::fallocate(*descriptor, 0, 0, static_cast<off_t>(size_of(capacity))) != 0 ||
      ::fcntl(*descriptor, F_ADD_SEALS, seals) != 0) {
    return Error{Errc::exhausted, "no memory to share"};
  }
  auto begin = map(descriptor, capacity);
  if (!begin) return begin.error();
  for (std::uint32_t number = 0; number < 2; ++number) new (*begin + number * sizeof(SharedRing)) SharedRing{};
  return SharedMemory(std::move(descriptor), *begin, capacity);
}

Result<SharedMemory> SharedMemory::open(Descriptor descriptor) {
  struct stat status {};
  const int sealed = ::fcntl(*descriptor, F_GET_SEALS);
  if (::fstat(*descriptor, &status) != 0 || sealed < 0 || (sealed & seals) != seals) {
    return Error{Errc::malformed, "memory to share whose size may change"};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::size_t capacity = size < rings_bytes ? 0 : (size - rings_bytes) / 2;
  if (!std::has_single_bit(capacity) || capacity < capacity_min || capacity > capacity_max ||
      size != size_of(capacity)) {
    return Error{Errc::malformed, "memory to share of " + std::to_string(size) + " bytes"};
  }
  auto begin = map(descriptor, capacity);
  if (!begin) return begin.error();
  return SharedMemory(std::move(descriptor), *begin, capacity);
}

SharedRing& SharedMemory::ring(std::uint32_t number) const {
  return *std::launder(reinterpret_cast<SharedRing*>(begin_ + number * sizeof(SharedRing)));
}

std::span<std::byte> SharedMemory::bytes(std::uint32_t number) const {
  return {begin_ + rings_bytes + number * capacity_, capacity_};
}

SharedMemoryStream::SharedMemoryStream(Descriptor socket, SharedMemory memory, Side side)
    : socket_(std::move(socket)),
      memory_(std::move(memory)),
      out_(memory_.ring(side == Side::creator ? 0 : 1)),
      in_(memory_.ring(side == Side::creator ? 1 : 0)),
      out_bytes_(memory_.bytes(side == Side::creator ? 0 : 1)),
      in_bytes_(memory_.bytes(side == Side::creator ? 1 : 0)) {}

Result<std::size_t> SharedMemoryStream::room() const {
  const std::uint64_t under_way = written_ - out_.read.load();
  if (under_way > out_bytes_.size()) return corrupt();
  return out_bytes_.size() - under_way;
}

Result<std::size_t> SharedMemoryStream::filled() const {
  const std::uint64_t waiting = in_.written.load() - read_;
  if (waiting > in_bytes_.size()) return corrupt();
  return waiting;
}

void SharedMemoryStream::ring_bell() const {
  // If the socket is full, there are bells enough on their way; if it is closed, its end tells.
  const char bell = 0;
  if (::send(*socket_, &bell, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

Result<std::size_t> SharedMemoryStream::write(std::span<const iovec> parts) {
  if (peer_gone_) return Error{Errc::peer_lost, "closed the connection"};
  const std::size_t total = size_of(parts);
  std::size_t done = 0;
  bool asked = false;
  while (done < total) {
    const auto free = room();
    if (!free) return free.error();
    if (*free == 0) {
      if (asked) break;
      asked = true;  // and then looks again, because the reader may have made room before it could know
      out_.writer_waits = 1;
      continue;
    }
    const std::size_t size = std::min({*free, total - done, stretch_bytes});
    for_pieces(out_bytes_, written_, parts, done, size,
               [](std::byte* in_ring, const std::byte* in_part, std::size_t n) { std::memcpy(in_ring, in_part, n); });
    done += size;
    written_ += size;
    out_.written = written_;
    if (out_.reader_waits.exchange(0) != 0) ring_bell();
  }
  return done;
}

Result<std::size_t> SharedMemoryStream::read(std::span<const iovec> parts) {
  const std::size_t total = size_of(parts);
  std::size_t done = 0;
  bool asked = false;
  while (done < total) {
    const auto waiting = filled();
    if (!waiting) return waiting.error();
    if (*waiting == 0) {
      if (asked) break;
      asked = true;  // and then looks again
      in_.reader_waits = 1;
      continue;
    }
    const std::size_t size = std::min({*waiting, total - done, stretch_bytes});
    for_pieces(in_bytes_, read_, parts, done, size,
               [](const std::byte* in_ring, std::byte* in_part, std::size_t n) { std::memcpy(in_part, in_ring, n); });
    done += size;
    read_ += size;
    in_.read = read_;
    if (in_.writer_waits.exchange(0) != 0) ring_bell();
  }
  if (done == 0 && total > 0 && peer_ended_) return Error{Errc::peer_lost, "closed the connection"};
  return done;
}

void SharedMemoryStream::end_writing() { ::shutdown(*socket_, SHUT_WR); }

Readiness SharedMemoryStream::readiness(std::uint32_t events) {
  std::array<char, 256> bells;
  while (::recv(*socket_, bells.data(), bells.size(), MSG_DONTWAIT) > 0) {
  }
  peer_ended_ |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  peer_gone_ |= (events & (EPOLLHUP | EPOLLERR)) != 0;
  return {.readable = true, .writable = true, .hung_up = peer_ended_};
}

}  // namespace weir::collectives
