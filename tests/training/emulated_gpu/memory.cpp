#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace weir::testing {
namespace {

constexpr std::size_t size = std::size_t{1} << 36;  // of addresses; memory is taken where something is written
constexpr std::size_t smallest = 256;

std::size_t limit() {
  const char* const bytes = std::getenv("WEIR_EMULATED_GPU_BYTES");
  return bytes == nullptr ? size : std::strtoull(bytes, nullptr, 10);
}

std::byte* mapped(int file, int protection) {
  void* const at = ::mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
  static auto* const memory = new DeviceMemory;  // tensors may outlive what ends with the program
  return *memory;
}

DeviceMemory::DeviceMemory() {
  const int file = ::memfd_create("device", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) std::abort();
  device_ = mapped(file, PROT_NONE);
  host_ = mapped(file, PROT_READ | PROT_WRITE);
  ::close(file);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t room = std::bit_ceil(std::max(bytes, smallest));
  const std::lock_guard lock(mutex_);
  if (used_ + room > limit()) return nullptr;
  used_ += room;
  auto& places = free_[room];
  std::size_t place = end_;
  if (places.empty()) {
    end_ += room;
    if (end_ > size) std::abort();
  } else {
    place = places.back();
    places.pop_back();
  }
  sizes_[place] = room;
  return device_ + place;
}

void DeviceMemory::free(void* at) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(static_cast<std::size_t>(static_cast<std::byte*>(at) - device_));
  if (found == sizes_.end()) std::abort();
  used_ -= found->second;
  free_[found->second].push_back(found->first);
  sizes_.erase(found);
}

std::byte* DeviceMemory::on_host(const void* at) const { return host_ + (static_cast<const std::byte*>(at) - device_); }

}  // namespace weir::testing
