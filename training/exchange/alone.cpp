#include "training/exchange/alone.hpp"

#include <span>

namespace weir::training {

Result<void> encode_alone(compressors::Compressor& compressor, const at::Tensor& tensor, compressors::Round round,
                          Bytes& out, compressors::Selection* own, Bytes& scratch) {
  const auto last = static_cast<std::uint32_t>(compressor.traits().passes.size() - 1);
  for (round.pass = 0; round.pass < last; ++round.pass) {
    scratch.clear();
    if (auto encoded = compressor.encode(tensor, round, scratch); !encoded) return encoded;
    const BytesView result = scratch;
    if (auto absorbed = compressor.absorb(std::span(&result, 1), round); !absorbed) return absorbed;
  }
  return compressor.encode(tensor, round, out, own);
}

}  // namespace weir::training
