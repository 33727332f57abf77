// What a rank tells the others about its NCCL.

#include <cstddef>
#include <cstdint>

#include "base/ensure.hpp"
#include "cuda/nccl_rendezvous.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto state = weir::cuda::decode_nccl_state({reinterpret_cast<const std::byte*>(data), size});
  if (!state) return 0;
  const weir::Bytes bytes = encode(*state);
  const auto again = weir::cuda::decode_nccl_state(bytes);
  weir::ensure(again && again->version == state->version && again->node == state->node, "what was told survives");
  return 0;
}
