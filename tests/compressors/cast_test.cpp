#include <gtest/gtest.h>

#include <limits>

#include "base/errc.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr float float_max = std::numeric_limits<float>::max();

struct Format {
  const char* name;
  at::ScalarType type;
  float largest;
};

class Cast : public ::testing::TestWithParam<Format> {
 protected:
  std::unique_ptr<Compressor> make() const { return Case{GetParam().name, {}}.make(); }
};

INSTANTIATE_TEST_SUITE_P(Formats, Cast,
                         ::testing::Values(Format{"fp16", at::kHalf, 65504.0F},
                                           Format{"bf16", at::kBFloat16, 0x1.FEp127F}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Cast, GivesTheBytesOfLibTorchsConversion) {
  for (const std::int64_t entries : {1, 7, 4'096, 4'097, 20'003}) {
    const at::Tensor x = heavy_tailed(entries, 1) * 10;
    const at::Tensor cast = x.to(GetParam().type);
    const Bytes payload = encoded(*make(), x, round_at(0));
    ASSERT_EQ(payload.size(), cast.nbytes()) << "nothing but the numbers: they are summed in place";
    EXPECT_EQ(std::memcmp(payload.data(), cast.data_ptr(), payload.size()), 0);
    EXPECT_TRUE(at::equal(decoded(*make(), payload, x, round_at(0)), cast.to(at::kFloat)));
  }
}

TEST_P(Cast, Saturates) {
  const at::Tensor x = at::tensor({float_max, -float_max, 1.0F, -0.0F});
  const at::Tensor y = decoded(*make(), encoded(*make(), x, round_at(0)), x, round_at(0));
  const float largest = GetParam().largest;
  EXPECT_TRUE(at::equal(y, at::tensor({largest, -largest, 1.0F, 0.0F})));
}

TEST_P(Cast, DecodesAtAnyAddress) {
  const at::Tensor x = gaussian(5'000, 2);
  Bytes shifted(1);
  const Bytes payload = encoded(*make(), x, round_at(0));
  shifted.insert(shifted.end(), payload.begin(), payload.end());
  EXPECT_TRUE(same_bits(decoded(*make(), BytesView(shifted).subspan(1), x, round_at(0)),
                        decoded(*make(), payload, x, round_at(0))));
}

TEST_P(Cast, RefusesNumbersThatAreNotFinite) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const std::int64_t at : {0, 4'096, 9'998}) {
      at::Tensor x = gaussian(9'999, 3).to(GetParam().type);
      x[at] = bad;
      const BytesView payload(static_cast<const std::byte*>(x.data_ptr()), x.nbytes());
      at::Tensor sum = at::zeros({9'999});
      EXPECT_EQ(make()->decode_add(payload, round_at(0), 1, sum).error().code, Errc::malformed);
    }
  }
}

/// What the ranks send adds up to their mean, so that it stays in range.
TEST_P(Cast, SendsItsShareOfTheMean) {
  Round round = round_at(0);
  round.world = 5;
  const float large = GetParam().largest * 0.9F;
  for (const float value : {large, -large, 1.0F, 3e-3F}) {
    const at::Tensor x = at::full({4'100}, value);
    const Bytes payload = encoded(*make(), x, round);
    at::Tensor sent = at::empty({4'100}, GetParam().type);
    ASSERT_EQ(payload.size(), sent.nbytes());
    std::memcpy(sent.data_ptr(), payload.data(), payload.size());
    EXPECT_TRUE(at::equal(sent, (x * (1.0F / 5)).to(GetParam().type))) << value;
    at::Tensor mean = at::zeros_like(x);
    for (int rank = 0; rank < 5; ++rank) make()->decode_add(payload, round, 0.2F, mean).value();
    EXPECT_TRUE(at::allclose(mean, x, 5e-3)) << value << ": decoding takes the division back";
  }
}

TEST_P(Cast, IsSummedInSixteenBits) {
  const Traits traits = make()->traits();
  EXPECT_EQ(traits.passes, Passes{GetParam().type == at::kHalf ? Reduction::sum_fp16 : Reduction::sum_bf16});
  EXPECT_FALSE(traits.lossless);
}

}  // namespace
}  // namespace weir::compressors::test
