#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace weir::worker {

/// Keeps the memory of large tensors that are freed for the next ones of their size. Each training step frees and takes
/// the same sizes; from the system they come as pages that are missing at first and have to be cleared, one by one,
/// which takes as long as a part of the arithmetic. The system is asked for large pages, of which far fewer addresses
/// have to be looked up. Small tensors come from malloc. From any thread.
class TensorMemory final : public c10::Allocator {
 public:
  static constexpr std::size_t large_bytes = 1 << 20;

  /// The only one: LibTorch gives memory back by its address alone. Never destroyed, since tensors may outlive all
  /// else.
  static TensorMemory& of_process();

  /// Has LibTorch take the memory of all tensors from here, from now on.
  static void install();

  /// Fails with: std::bad_alloc. Overrides c10::Allocator's, which is const in LibTorch 1.13 and not in later ones.
  c10::DataPtr allocate(std::size_t bytes) const;
  c10::DataPtr allocate(std::size_t bytes) { return std::as_const(*this).allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &TensorMemory::give_back; }
  /// Overrides c10::Allocator's of LibTorch 2.
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

  /// What is kept for later. Never so much that what was in use at most would grow by more than a quarter.
  std::size_t kept_bytes() const;
  /// The most that was in use at a time, in large tensors.
  std::size_t most_used_bytes() const;

 private:
  TensorMemory() = default;
  static void give_back(void* begin);
  void* take(std::size_t bytes) const;
  bool keep(void* begin) const;
  void drop_kept(std::size_t bytes) const;

  mutable std::mutex mutex_;
  mutable std::unordered_map<void*, std::size_t> used_;  ///< sizes
  mutable std::multimap<std::size_t, void*> kept_;       ///< by size
  mutable std::size_t kept_bytes_ = 0;
  mutable std::size_t used_bytes_ = 0;
  mutable std::size_t most_used_bytes_ = 0;
};

}  // namespace weir::worker
