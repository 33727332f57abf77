#include "compressors/kernels/processor.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace weir::compressors {
namespace {

bool detect() {
#if defined(__x86_64__)
  const char* wanted = std::getenv("WEIR_KERNELS");
  if (wanted != nullptr && std::string_view(wanted) == "portable") return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

std::atomic<int> portable_wanted = 0;

}  // namespace

bool has_avx2() {
  static const bool detected = detect();
  return detected && portable_wanted.load(std::memory_order_relaxed) == 0;
}

PortableKernels::PortableKernels() { ++portable_wanted; }
PortableKernels::~PortableKernels() { --portable_wanted; }

}  // namespace weir::compressors
