#pragma once

namespace weir {

// Loops over whole gradients that compilers do not vectorize well by themselves exist several times: portable, for AVX2
// with the extensions that came with it, and where twice the width is worth it for AVX-512. All compute the same bits.

enum class Kernels { portable, avx2, avx512 };

/// Mark functions that run only where has_avx2() or has_avx512().
#if defined(__x86_64__)
#define WEIR_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,f16c")))
#define WEIR_AVX512 __attribute__((target("avx512f,avx512vl")))
#endif

/// This processor has AVX2, BMI2 and F16C (and AVX-512 with VL), and nobody wants simpler loops: neither the
/// environment (WEIR_KERNELS=portable or avx2) nor a KernelsUpTo object.
bool has_avx2();
bool has_avx512();

/// While one exists, no other loops than these run: for tests that compare them.
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
