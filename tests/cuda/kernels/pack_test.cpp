#include "compressors/kernels/pack.hpp"

#include "cuda/kernels/pack.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

std::vector<std::uint8_t> some_codes(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<std::uint8_t> codes(n);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random());
  return codes;
}

TEST(CudaPack, CodesAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    const auto codes = some_codes(n);
    const auto bytes = std::as_bytes(std::span(codes));
    for (unsigned bits = 1; bits <= 8; ++bits) {
      std::vector<std::byte> due(compressors::packed_bytes(n, bits));
      compressors::pack(codes, bits, due);
      const Array<std::byte> packed(due.size(), n % 9);
      pack(Array<std::byte>(bytes, bits).data(), n, bits, packed.data(), nullptr).value();
      ASSERT_TRUE(same_bits(packed.read(), due)) << n << " codes of " << bits << " bits";
    }
  }
}

}  // namespace
}  // namespace weir::cuda
