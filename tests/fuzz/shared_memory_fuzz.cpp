// What another process of the host may leave in the memory that both share: its size, positions that lie, and frames
// that end anywhere.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/transports/shared_memory.hpp"
#include "frame_input.hpp"

namespace {

using weir::Bytes;
using weir::BytesView;
using weir::Descriptor;
using weir::ensure;
using weir::Errc;
using weir::collectives::SharedMemory;
using weir::collectives::SharedMemoryStream;

/// Takes a number off the input; what is missing at its end is zero.
template <class Number>
Number take(BytesView& input) {
  Number number = 0;
  const std::size_t size = std::min(input.size(), sizeof number);
  if (size > 0) std::memcpy(&number, input.data(), size);
  input = input.subspan(size);
  return number;
}

std::array<Descriptor, 2> sockets() {
  int pair[2];
  ensure(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0, "a pair of sockets");
  return {Descriptor(pair[0]), Descriptor(pair[1])};
}

/// The other process's mapping.
SharedMemory seen_by_peer(const SharedMemory& memory) {
  return SharedMemory::open(Descriptor(::dup(memory.descriptor()))).value();
}

/// A descriptor that was passed on, of memory of any size and with any of the seals.
void open_memory(BytesView input) {
  constexpr int all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const auto size = take<std::uint32_t>(input);
  const int seals = take<std::uint8_t>(input) & all_seals;
  Descriptor descriptor(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ensure(::ftruncate(*descriptor, static_cast<off_t>(size)) == 0, "memory of this size");
  ensure(::fcntl(*descriptor, F_ADD_SEALS, seals) == 0, "memory with these seals");
  const auto memory = SharedMemory::open(std::move(descriptor));
  const std::size_t capacity = size < 4096 ? 0 : (size - 4096) / 2;
  const bool right = seals == all_seals && capacity >= 4096 && std::has_single_bit(capacity) && size % 2 == 0;
  ensure(memory.has_value() == right, "memory is taken if its size is right and stays so");
  if (!memory) return;
  for (std::uint32_t number = 0; number < 2; ++number) {
    const auto bytes = memory->bytes(number);
    ensure(bytes.size() == capacity && memory->capacity() == capacity, "two rings of the same size");
    bytes.front() = bytes.back() = std::byte{1};  // within the memory
  }
}

/// A peer that moves the positions as it likes, while this side reads and writes. Nine bytes of input for each of that:
/// what is done, and a number.
void move_positions(BytesView input) {
  constexpr std::size_t capacity = 4096;
  const auto byte_at = [](std::uint64_t position) { return static_cast<std::byte>(position % capacity % 251); };
  auto [own, peer] = sockets();
  SharedMemory memory = SharedMemory::create(capacity).value();
  const SharedMemory seen = seen_by_peer(memory);
  for (std::size_t i = 0; i < capacity; ++i) seen.bytes(1)[i] = byte_at(i);
  SharedMemoryStream stream(std::move(own), std::move(memory), SharedMemoryStream::Side::creator);
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  std::uint64_t said_written = 0;  // by the peer
  std::uint64_t said_read = 0;
  while (!input.empty()) {
    const auto what = take<std::uint8_t>(input);
    const auto number = take<std::uint64_t>(input);
    Bytes bytes(number % (2 * capacity));
    const iovec part{bytes.data(), bytes.size()};
    if (what % 6 == 0) seen.ring(1).written = said_written = number;
    if (what % 6 == 1) seen.ring(0).read = said_read = number;
    if (what % 6 == 2) seen.ring(0).written = seen.ring(1).read = number;  // this side's own
    if (what % 6 == 3) seen.ring(0).reader_waits = seen.ring(1).writer_waits = static_cast<std::uint32_t>(number);
    if (what % 6 == 4) {
      const auto got = stream.read(std::span(&part, 1));
      const std::uint64_t waiting = said_written - read;
      if (waiting > capacity && !bytes.empty()) {
        ensure(!got && got.error().code == Errc::malformed, "read beyond the ring");
        continue;
      }
      ensure(got && *got == std::min<std::uint64_t>(waiting, bytes.size()), "what waits is read");
      for (std::size_t i = 0; i < *got; ++i) ensure(bytes[i] == byte_at(read + i), "bytes of another place");
      read += *got;
    }
    if (what % 6 == 5) {
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(written + i + 1);
      const auto taken = stream.write(std::span(&part, 1));
      const std::uint64_t under_way = written - said_read;
      if (under_way > capacity && !bytes.empty()) {
        ensure(!taken && taken.error().code == Errc::malformed, "wrote beyond the ring");
        continue;
      }
      ensure(taken && *taken == std::min<std::uint64_t>(capacity - under_way, bytes.size()), "the room is filled");
      for (std::size_t i = 0; i < *taken; ++i) {
        ensure(seen.bytes(0)[(written + i) % capacity] == bytes[i], "bytes in another place");
      }
      written += *taken;
    }
  }
}

/// A peer that has left `stream` in the memory and is dead. It says that it wrote `beyond` bytes more than that, and
/// has read `said_read` bytes, of which this side has written none.
void receive(BytesView stream, std::uint64_t beyond, std::uint64_t said_read) {
  auto [own, peer] = sockets();
  SharedMemory memory = SharedMemory::create(1 << 17).value();
  {
    const SharedMemory seen = seen_by_peer(memory);
    stream = stream.first(std::min(stream.size(), seen.capacity()));
    std::ranges::copy(stream, seen.bytes(1).begin());
    seen.ring(1).written = stream.size() + beyond;
    seen.ring(0).read = said_read;
  }
  peer.close();
  weir::collectives::fuzz::receive(
      std::make_unique<SharedMemoryStream>(std::move(own), std::move(memory), SharedMemoryStream::Side::creator));
}

}  // namespace

/// Byte 0 chooses: memory to share, positions, a stream as it is, or frames that are right but for what the input says.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  BytesView input = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 4 == 0) open_memory(input);
  if (data[0] % 4 == 1) move_positions(input);
  if (data[0] % 4 < 2) return 0;
  const auto beyond = take<std::uint16_t>(input);
  const auto said_read = take<std::uint8_t>(input);
  if (data[0] % 4 == 2) receive(input, beyond, said_read);
  if (data[0] % 4 == 3) receive(weir::collectives::fuzz::valid_frames(input, false), beyond, said_read);
  return 0;
}
