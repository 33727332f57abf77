#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "cuda/stream.hpp"

/// NCCL's own name of what an ncclComm_t points to.
struct ncclComm;

namespace weir::cuda {

// NCCL's interface, as far as it is used here, with the numbers of nccl.h: programs are built without it. It is stable
// within libnccl.so.2.

enum class NcclStatus : int { success = 0, cuda_error = 1, system_error = 2, remote_error = 6, in_progress = 7 };
enum class NcclType : int { uint8 = 1, float16 = 6, float32 = 7, bfloat16 = 9 };
enum class NcclReduction : int { sum = 0, max = 2, min = 3, mean = 4 };

/// By which the ranks of a communicator find each other.
struct NcclId {
  std::array<char, 128> bytes{};
};

/// As NCCL 2.14 had it; later ones take what they have added from `version`.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  ///< 0: calls may return in_progress, and ncclCommGetAsyncError tells of their end
};

struct NcclFunctions {
  using Comm = ncclComm*;
  using Stream = StreamHandle;

  NcclStatus (*get_version)(int*) = nullptr;
  NcclStatus (*get_unique_id)(NcclId*) = nullptr;
  NcclStatus (*comm_init)(Comm*, int ranks, NcclId, int rank, NcclConfig*) = nullptr;
  NcclStatus (*comm_finalize)(Comm) = nullptr;
  NcclStatus (*comm_destroy)(Comm) = nullptr;
  NcclStatus (*comm_abort)(Comm) = nullptr;
  NcclStatus (*comm_revoke)(Comm, int flags) = nullptr;  ///< since 2.28; null where there is none
  NcclStatus (*comm_async_error)(Comm, NcclStatus*) = nullptr;
  const char* (*error_string)(NcclStatus) = nullptr;
  const char* (*last_error)(Comm) = nullptr;
  NcclStatus (*group_start)() = nullptr;
  NcclStatus (*group_end)() = nullptr;
  NcclStatus (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclReduction, Comm, Stream) = nullptr;
  NcclStatus (*reduce)(const void*, void*, std::size_t, NcclType, NcclReduction, int root, Comm, Stream) = nullptr;
  NcclStatus (*reduce_scatter)(const void*, void*, std::size_t, NcclType, NcclReduction, Comm, Stream) = nullptr;
  NcclStatus (*all_gather)(const void*, void*, std::size_t, NcclType, Comm, Stream) = nullptr;
  NcclStatus (*broadcast)(const void*, void*, std::size_t, NcclType, int root, Comm, Stream) = nullptr;
  NcclStatus (*send)(const void*, std::size_t, NcclType, int to, Comm, Stream) = nullptr;
  NcclStatus (*receive)(void*, std::size_t, NcclType, int from, Comm, Stream) = nullptr;
};

/// NVIDIA's library of collectives between GPUs, opened at run time, so that programs run with and without it. It is
/// not closed again: threads of its own may still run. Used from any thread.
class NcclLibrary {
 public:
  static constexpr const char* default_library = "libnccl.so.2";
  /// The first with all that is needed here: communicators whose calls do not block are of use since then.
  static constexpr int version_min = 21800;

  /// Fails with: not_found (there is no library), unsupported (it is too old, or lacks a function that is needed). The
  /// context is a sentence for people.
  static Result<std::shared_ptr<const NcclLibrary>> open(const std::string& library = default_library);

  int version() const { return version_; }
  const NcclFunctions& call() const { return functions_; }

  /// What NCCL answered to `what`, as a result; in_progress is no failure. `comm`: whose last error it may be, or null.
  /// Fails with: io (another process or the network), internal.
  Result<void> check(NcclStatus answer, ncclComm* comm, std::string_view what) const;

 private:
  NcclLibrary() = default;

  NcclFunctions functions_;
  int version_ = 0;
};

/// "2.28.9"
std::string nccl_version_text(int version);

}  // namespace weir::cuda
