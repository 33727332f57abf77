// In builds without CUDA.

#include "base/errc.hpp"
#include "cuda/nccl.hpp"
#include "cuda/nccl_rendezvous.hpp"

namespace weir::cuda {

using collectives::Task;

/// Tells the other ranks, which may have been built with CUDA, and what each of them lacks.
Task<std::unique_ptr<Nccl>> join_nccl(collectives::Communicator& control, NcclOptions) {
  const Error without(Errc::unsupported,
                      "this build of weir is without CUDA; build it where nvcc is, or choose another topology");
  auto states = co_await exchange_nccl_states(control, own_nccl_state(without), collectives::Subject());
  if (!states) co_return states.error();
  co_return expect_one_nccl(*states).error();
}

}  // namespace weir::cuda
