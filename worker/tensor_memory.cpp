#include "worker/tensor_memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <new>

namespace weir::worker {
namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;

/// Sizes are rounded up, so that tensors of about one size can follow each other: by an eighth at most.
std::size_t class_of(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

/// Fresh memory that begins on a large page. Null if there is none.
void* map(std::size_t bytes) {
  const std::size_t mapped = bytes + huge_page_bytes;
  void* at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t begin = (first + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  auto* const memory = reinterpret_cast<void*>(begin);
  if (begin > first) ::munmap(at, begin - first);
  if (begin + bytes < first + mapped) ::munmap(reinterpret_cast<void*>(begin + bytes), first + mapped - begin - bytes);
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it the memory is only slower
  return memory;
}

}  // namespace

TensorMemory& TensorMemory::of_process() {
  static auto* const memory = new TensorMemory;
  return *memory;
}

void TensorMemory::install() { c10::SetCPUAllocator(&of_process()); }

c10::DataPtr TensorMemory::allocate(std::size_t bytes) const {
  if (bytes < large_bytes) return c10::GetDefaultCPUAllocator()->allocate(bytes);
  void* const begin = take(class_of(bytes));
  return {begin, begin, &TensorMemory::give_back, c10::Device(c10::DeviceType::CPU)};
}

std::size_t TensorMemory::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

std::size_t TensorMemory::most_used_bytes() const {
  const std::lock_guard lock(mutex_);
  return most_used_bytes_;
}

/// Takes what allocate() returned, large or small.
void TensorMemory::give_back(void* begin) {
  const bool on_large_page = reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes == 0;
  if (on_large_page && of_process().keep(begin)) return;
  c10::GetDefaultCPUAllocator()->raw_deleter()(begin);
}

void* TensorMemory::take(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  void* begin = nullptr;
  if (const auto found = kept_.find(bytes); found != kept_.end()) {
    begin = found->second;
    kept_bytes_ -= bytes;
    kept_.erase(found);
  } else {
    begin = map(bytes);
    if (begin == nullptr) {
      drop_kept(0);
      begin = map(bytes);
    }
    if (begin == nullptr) throw std::bad_alloc();
  }
  used_.emplace(begin, bytes);
  used_bytes_ += bytes;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  return begin;
}

/// Returns false if it is not from take().
bool TensorMemory::keep(void* begin) const {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(begin);
  if (found == used_.end()) return false;
  const std::size_t bytes = found->second;
  used_.erase(found);
  used_bytes_ -= bytes;
  kept_.emplace(bytes, begin);
  kept_bytes_ += bytes;
  const std::size_t limit = most_used_bytes_ + most_used_bytes_ / 4;
  drop_kept(limit > used_bytes_ ? limit - used_bytes_ : 0);
  return true;
}

/// Gives memory back to the system until at most `bytes` bytes are kept, the largest first: whoever needs it again has
/// the most to do with it anyway.
void TensorMemory::drop_kept(std::size_t bytes) const {
  while (kept_bytes_ > bytes) {
    const auto last = std::prev(kept_.end());
    ::munmap(last->second, last->first);
    kept_bytes_ -= last->first;
    kept_.erase(last);
  }
}

}  // namespace weir::worker
