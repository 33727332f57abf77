#pragma once

namespace weir {

// Which vector instructions the kernels use. Loops that compilers do not vectorize well exist in several versions:
// portable, for AVX2, and, where the width pays, for AVX-512. All versions compute the same bits.

enum class Kernels { portable, avx2, avx512 };

/// Attributes for functions that are called only if has_avx2() or has_avx512() holds.
#if defined(__x86_64__)
#define WEIR_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,f16c")))
#define WEIR_AVX512 __attribute__((target("avx512f,avx512vl")))
#endif

/// True if this processor has AVX2, BMI2 and F16C (has_avx512(): AVX-512F and VL) and neither the environment
/// (WEIR_KERNELS=portable or avx2) nor a KernelsUpTo object restricts the kernels.
bool has_avx2();
bool has_avx512();

/// Restricts the kernels to at most `most` while it exists, for tests that compare the versions.
class KernelsUpTo {
 public:
  explicit KernelsUpTo(Kernels most);
  ~KernelsUpTo();
  KernelsUpTo(const KernelsUpTo&) = delete;
  KernelsUpTo& operator=(const KernelsUpTo&) = delete;

 private:
  Kernels before_;
};

}  // namespace weir
