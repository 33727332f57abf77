#pragma once

namespace weir {

// Loops over whole gradients that compilers do not vectorize well by themselves exist twice: portable, and for AVX2
// with the extensions that came with it. Both compute the same bits.

/// Marks a function that runs only where has_avx2().
#if defined(__x86_64__)
#define WEIR_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,f16c")))
#endif

/// This processor has AVX2, BMI2 and F16C, and nobody wants the portable loops: neither the environment
/// (WEIR_KERNELS=portable) nor a PortableKernels object.
bool has_avx2();

/// While one exists, the portable loops run: for tests that compare the two.
class PortableKernels {
 public:
  PortableKernels();
  ~PortableKernels();
  PortableKernels(const PortableKernels&) = delete;
  PortableKernels& operator=(const PortableKernels&) = delete;
};

}  // namespace weir
