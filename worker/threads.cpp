#include "worker/threads.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <spdlog/spdlog.h>

#include "training/models/convolutions.hpp"

namespace weir::worker {

void set_threads(int count) {
  at::set_num_threads(count);
  // OpenBLAS has threads of its own, which LibTorch does not know of. Not every BLAS has this function.
  using SetThreads = void (*)(int);
  if (auto* symbol = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) reinterpret_cast<SetThreads>(symbol)(count);
}

std::jthread warm_up() {
  return std::jthread([] {
    if (training::leaves_out_onednn()) {
      spdlog::warn(
          "oneDNN computes convolutions wrongly on this machine: they are computed without it, which is slower");
    }
    const auto image = at::ones({1, 1, 8, 8});
    const auto kernel = at::ones({1, 1, 3, 3}).set_requires_grad(true);
    at::conv2d(image, kernel).flatten(1).mm(at::ones({36, 4})).sum().backward();
  });
}

}  // namespace weir::worker
