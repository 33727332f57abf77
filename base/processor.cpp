#include "base/processor.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weir {
namespace {

Kernels detect() {
#if defined(__x86_64__)
  // clang 16 has no name for F16C.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) return Kernels::portable;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") ? Kernels::avx512 : Kernels::avx2;
#else
  return Kernels::portable;
#endif
}

Kernels allowed() {
  const char* wanted = std::getenv("WEIR_KERNELS");
  if (wanted != nullptr && std::string_view(wanted) == "portable") return Kernels::portable;
  if (wanted != nullptr && std::string_view(wanted) == "avx2") return Kernels::avx2;
  return Kernels::avx512;
}

std::atomic<Kernels>& most() {
  static std::atomic<Kernels> most = std::min(detect(), allowed());
  return most;
}

}  // namespace

bool has_avx2() { return most().load(std::memory_order_relaxed) >= Kernels::avx2; }
bool has_avx512() { return most().load(std::memory_order_relaxed) >= Kernels::avx512; }

KernelsUpTo::KernelsUpTo(Kernels limit) : before_(most().load()) { most() = std::min(before_, limit); }
KernelsUpTo::~KernelsUpTo() { most() = before_; }

}  // namespace weir
