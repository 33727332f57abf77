#include "tests/cuda/emulator/device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tests/cuda/emulator/emulator.hpp"

namespace weir::emulator {
namespace {

constexpr std::size_t size = std::size_t{1} << 36;  // of addresses; memory is taken where something is written
constexpr std::size_t smallest = 256;

std::size_t limit() {
  const char* const bytes = std::getenv("WEIR_EMULATED_GPU_BYTES");
  return bytes == nullptr ? size : std::strtoull(bytes, nullptr, 10);
}

std::byte* mapped(int file, int protection) {
  void* const at = ::mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) fail("there are no addresses for its memory");
  return static_cast<std::byte*>(at);
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
  static auto* const memory = new DeviceMemory;  // tensors may outlive what ends with the program
  return *memory;
}

DeviceMemory::DeviceMemory() {
  const int file = ::memfd_create("device", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) fail("there is no memory");
  device_ = mapped(file, PROT_NONE);
  host_ = mapped(file, PROT_READ | PROT_WRITE);
  ::close(file);
}

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  if (used_ + bytes > limit()) return nullptr;
  const std::size_t room = std::bit_ceil(std::max(bytes, smallest));
  auto& places = free_[room];
  std::size_t place = end_;
  if (places.empty()) {
    end_ += room;
    if (end_ > size) fail("its addresses are used up");
  } else {
    place = places.back();
    places.pop_back();
  }
  used_ += bytes;
  places_[place] = {.room = room, .bytes = bytes};
  return device_ + place;
}

void DeviceMemory::free(std::byte* at) {
  const auto found = places_.find(static_cast<std::size_t>(at - device_));
  if (found == places_.end()) fail("memory is freed that was not allocated");
  used_ -= found->second.bytes;
  free_[found->second.room].push_back(found->first);
  places_.erase(found);
}

std::byte* DeviceMemory::on_host(const void* at) const { return host_ + (static_cast<const std::byte*>(at) - device_); }

Access::Access() {
  DeviceMemory& memory = DeviceMemory::get();
  if (memory.accesses_++ == 0) ::mprotect(memory.device_, memory.end_, PROT_READ | PROT_WRITE);
}

Access::~Access() {
  DeviceMemory& memory = DeviceMemory::get();
  if (--memory.accesses_ == 0) ::mprotect(memory.device_, memory.end_, PROT_NONE);
}

}  // namespace weir::emulator
