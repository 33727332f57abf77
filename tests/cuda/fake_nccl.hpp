#pragma once

#include <dlfcn.h>

#include <atomic>

namespace weir::cuda::testing {

/// What a libnccl.so.2 for tests (fake_nccl.cpp) is told, and tells. -1: no rank.
struct FakeNccl {
  std::atomic<int> absent_rank{-1};   ///< of this rank, the others' communicators see nothing, and it sees none of them
  std::atomic<int> hanging_rank{-1};  ///< what it has put into its stream never begins
  std::atomic<int> failing_rank{-1};  ///< to which NCCL tells ...
  std::atomic<int> failure{6};        ///< ... this: a remote error
  std::atomic<bool> abort_hangs{false};

  std::atomic<int> communicators{0};  ///< that are there
  std::atomic<int> operations{0};     ///< that have been put into streams
  std::atomic<int> revoked{0};
  std::atomic<int> aborted{0};
  std::atomic<int> destroyed{0};
};

/// The library's function of the name "fake_nccl".
using FakeNcclFunction = FakeNccl* (*)();

/// What the library at this path is told, and tells.
inline FakeNccl& fake_nccl_of(const char* library) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<FakeNcclFunction>(::dlsym(opened, "fake_nccl"))();
}

}  // namespace weir::cuda::testing
