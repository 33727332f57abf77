#include "cuda/nccl_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errc.hpp"

namespace weir::cuda {
namespace {

/// Text of the library, of a bounded length and without anything unprintable.
std::string text_of(const char* text) {
  if (text == nullptr) return {};
  std::string copy(text, ::strnlen(text, 400));
  std::ranges::replace_if(
      copy, [](char c) { return c < ' ' || c > '~'; }, ' ');
  return copy;
}

/// The functions by name; the name of the first that is needed and missing, or null.
const char* find_functions(void* library, NcclFunctions& to) {
  const char* missing = nullptr;
  const auto find = [&](auto*& function, const char* name, bool needed = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && needed && missing == nullptr) missing = name;
  };
  find(to.get_version, "ncclGetVersion");
  find(to.get_unique_id, "ncclGetUniqueId");
  find(to.comm_init, "ncclCommInitRankConfig");
  find(to.comm_finalize, "ncclCommFinalize");
  find(to.comm_destroy, "ncclCommDestroy");
  find(to.comm_abort, "ncclCommAbort");
  find(to.comm_revoke, "ncclCommRevoke", false);
  find(to.comm_async_error, "ncclCommGetAsyncError");
  find(to.error_string, "ncclGetErrorString", false);
  find(to.last_error, "ncclGetLastError", false);
  find(to.group_start, "ncclGroupStart");
  find(to.group_end, "ncclGroupEnd");
  find(to.all_reduce, "ncclAllReduce");
  find(to.reduce, "ncclReduce");
  find(to.reduce_scatter, "ncclReduceScatter");
  find(to.all_gather, "ncclAllGather");
  find(to.broadcast, "ncclBroadcast");
  find(to.send, "ncclSend");
  find(to.receive, "ncclRecv");
  return missing;
}

constexpr const char* advice = "install NVIDIA's package libnccl2, or put the library's folder into LD_LIBRARY_PATH";

}  // namespace

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::open(const std::string& name) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{Errc::not_found, "there is no NCCL: " + name + " cannot be loaded; " + advice};
  }
  std::shared_ptr<NcclLibrary> opened(new NcclLibrary);
  const char* const missing = find_functions(library, opened->functions_);
  const NcclFunctions& functions = opened->functions_;
  const bool told = functions.get_version != nullptr && functions.get_version(&opened->version_) == NcclStatus::success;
  if (told && opened->version_ < version_min) {
    return Error{Errc::unsupported, "NCCL is too old: " + name + " is of version " +
                                        nccl_version_text(opened->version_) + ", and " +
                                        nccl_version_text(version_min) + " or newer is needed; " + advice};
  }
  if (missing != nullptr || !told) {
    return Error{Errc::unsupported, name + " is no NCCL that can be used: it has no " +
                                        (missing == nullptr ? "version" : missing) + "; " + advice};
  }
  return std::shared_ptr<const NcclLibrary>(std::move(opened));
}

Result<void> NcclLibrary::check(NcclStatus answer, ncclComm* comm, std::string_view what) const {
  if (answer == NcclStatus::success || answer == NcclStatus::in_progress) return {};
  const std::string kind = functions_.error_string == nullptr ? "" : text_of(functions_.error_string(answer));
  const std::string detail = functions_.last_error == nullptr ? "" : text_of(functions_.last_error(comm));
  const bool outside = answer == NcclStatus::system_error || answer == NcclStatus::remote_error;
  return Error{outside ? Errc::io : Errc::internal, std::string(what) + ": " + kind +
                                                        (detail.empty() ? "" : ", " + detail) + " (NCCL error " +
                                                        std::to_string(static_cast<int>(answer)) + ")"};
}

std::string nccl_version_text(int version) {
  // Up to 2.8 a version was written with one digit less.
  const int major = version < 10'000 ? version / 1000 : version / 10'000;
  const int minor = version < 10'000 ? version / 100 % 10 : version / 100 % 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(version % 100);
}

}  // namespace weir::cuda
