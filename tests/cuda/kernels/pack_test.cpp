#include "compressors/kernels/pack.hpp"

#include <algorithm>

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

TEST(CudaPack, PackedAndUnpackedCodesAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    const auto codes = some_codes(n);
    const auto bytes = std::as_bytes(std::span(codes));
    for (unsigned bits = 1; bits <= 8; ++bits) {
      std::vector<std::byte> due(compressors::packed_bytes(n, bits));
      compressors::pack(codes, bits, due);
      const Array<std::byte> packed(due.size(), n % 9);
      pack(Array<std::byte>(bytes, bits).data(), n, bits, packed.data(), nullptr).value();
      ASSERT_TRUE(same_bits(packed.read(), due)) << n << " codes of " << bits << " bits";
      std::vector<std::uint8_t> due_codes(n);
      compressors::unpack(due, bits, due_codes);
      const Array<std::byte> unpacked(n, n % 8);
      const Reported report;
      unpack(packed.data(), n, bits, unpacked.data(), report.at(), nullptr).value();
      const auto found = unpacked.read();
      ASSERT_TRUE(std::ranges::equal(found, std::as_bytes(std::span(due_codes)))) << n << " codes of " << bits;
      ASSERT_EQ(report.read().misfit, 0);
    }
  }
}

TEST(CudaPack, BitsBehindTheLastFieldAreAMisfit) {
  const std::vector<std::byte> in = {std::byte{0xFF}, std::byte{0x10}};
  const Array<std::byte> codes(4);
  const Reported report;
  unpack(Array<std::byte>(in).data(), 4, 3, codes.data(), report.at(), nullptr).value();
  EXPECT_FALSE(compressors::padding_is_zero(in, 4, 3));
  EXPECT_EQ(report.read().misfit, 1);
}

}  // namespace
}  // namespace weir::cuda
