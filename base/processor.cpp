#include "base/processor.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weir {
namespace {

bool detect() {
#if defined(__x86_64__)
  const char* wanted = std::getenv("WEIR_KERNELS");
  if (wanted != nullptr && std::string_view(wanted) == "portable") return false;
  // clang 16 has no name for F16C.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
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

}  // namespace weir
