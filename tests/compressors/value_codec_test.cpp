#include "compressors/codecs/value_codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "base/half.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/sparsifiers/topk.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

using Values = std::vector<float>;

Values values_of(const at::Tensor& x) { return {x.data_ptr<float>(), x.data_ptr<float>() + x.numel()}; }

/// What a sparsifier sends: large magnitudes of either sign.
Values top_values(std::int64_t count, std::uint64_t seed) {
  const at::Tensor x = gaussian(count, seed);
  return values_of(at::sign(x) * (3 + at::abs(gaussian(count, seed + 1)) * 0.3));
}

class ValueCodecs : public ::testing::TestWithParam<const ValueCodec*> {
 protected:
  const ValueCodec& codec_ = *GetParam();

  Values round_trip(const Values& values) {
    Bytes bytes(codec_.bytes(values.size()), std::byte{0xEE});
    codec_.encode(values, bytes);
    Values decoded(values.size(), NAN);
    codec_.decode(bytes, decoded);
    return decoded;
  }
};

INSTANTIATE_TEST_SUITE_P(All, ValueCodecs, ::testing::ValuesIn(value_codecs().begin(), value_codecs().end()),
                         [](const auto& info) { return std::string(info.param->name); });

double error_of(const Values& x, const Values& y) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - y[i], 2);
    norm += std::pow(static_cast<double>(x[i]), 2);
  }
  return norm == 0 ? error : error / norm;
}

TEST_P(ValueCodecs, KeepsItsErrorBound) {
  Values worst_of_levels(1'024, 0);  // half a step above zero, in the way of one large value
  for (const unsigned bits : {8U, 4U, 2U}) {
    const float half_step = 0.5F / static_cast<float>((1U << (bits - 1)) - 1) - 1e-6F;
    for (std::size_t i = 0; i < 1'024; ++i) worst_of_levels[i] = i % 512 < 2 ? static_cast<float>(i % 2) : half_step;
    EXPECT_LE(error_of(worst_of_levels, round_trip(worst_of_levels)), codec_.error_bound) << bits;
  }
  Values worst_of_halves(512, 0);
  worst_of_halves[0] = 1;
  std::fill_n(worst_of_halves.begin() + 1, 41, 0.5F);
  EXPECT_LE(error_of(worst_of_halves, round_trip(worst_of_halves)), codec_.error_bound);
  const std::vector<Values> inputs = {values_of(gaussian(3'000, 1)),
                                      values_of(heavy_tailed(3'000, 2)),
                                      values_of(sparse(3'000, 3)),
                                      values_of(gaussian(3'000, 4) * 1e-30F),
                                      values_of(gaussian(3'000, 5) * 1e30F),
                                      top_values(3'000, 6),
                                      Values(700, std::numeric_limits<float>::max()),
                                      Values(700, std::numeric_limits<float>::min()),
                                      {0, 0, 0},
                                      {-2.5F},
                                      {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Values decoded = round_trip(inputs[i]);
    EXPECT_LE(error_of(inputs[i], decoded), codec_.error_bound) << "input " << i;
    for (std::size_t j = 0; j < decoded.size(); ++j) {
      EXPECT_TRUE(std::isfinite(decoded[j]) && std::signbit(decoded[j]) == std::signbit(inputs[i][j])) << i << ' ' << j;
    }
  }
}

TEST_P(ValueCodecs, GivesEndsOfEqualValuesBack) {
  for (const float value : {1.0F, -0.375F, 0x1p-100F}) {
    EXPECT_EQ(round_trip(Values(600, value)), Values(600, value));
  }
}

TEST_P(ValueCodecs, ReadsBackWhatASparsePayloadHolds) {
  Selection selection;
  selection.values = top_values(1'000, 7);
  for (std::uint32_t i = 0; i < 1'000; ++i) selection.positions.push_back(7 * i);
  Bytes payload;
  write_sparse(selection, 7'000, rice_codec, codec_, payload);
  Selection read;
  ASSERT_TRUE(read_sparse(payload, 7'000, read));
  EXPECT_EQ(read.positions, selection.positions);
  EXPECT_EQ(read.values, round_trip(selection.values));
}

TEST(ValueCodec, HalvesAndBFloat16AreThoseOfLibTorch) {
  Values values;
  for (std::uint32_t i = 0; i < 3'000; ++i) {
    values.push_back(std::bit_cast<float>(0x3100'0000 + i * 0x0001'3577) * (i % 2 == 0 ? 1.0F : -1.0F));
  }
  values.push_back(65'535);  // 2^15 and more: no other power of two is taken out
  for (const auto& [codec, head] : {std::pair{&fp16_codec, std::size_t{1}}, {&bf16_codec, std::size_t{0}}}) {
    Bytes bytes(codec->bytes(values.size()));
    codec->encode(values, bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = std::clamp(values[i], -65'504.0F, 65'504.0F);
      const std::uint16_t expected = head == 1 ? c10::Half(value).x : c10::BFloat16(values[i]).x;
      std::uint16_t written;
      std::memcpy(&written, bytes.data() + head + 2 * i, sizeof written);
      ASSERT_EQ(written, expected) << values[i];
    }
  }
}

TEST(ValueCodec, FloatsOfSixteenBitsDoNotVanishWithTheScaleOfTheGradient) {
  for (const float scale : {1e-37F, 1e-9F, 1.0F, 1e9F, 1e37F}) {
    Values values = top_values(100, 8);
    for (float& value : values) value *= scale;
    Bytes bytes(fp16_codec.bytes(values.size()));
    fp16_codec.encode(values, bytes);
    Values back(values.size());
    fp16_codec.decode(bytes, back);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(back[i] / values[i], 1, 0x1p-11) << scale;
  }
}

/// The nearest of evenly spaced magnitudes, by trying all.
TEST(ValueCodec, LevelsAreTheNearest) {
  const Values values = top_values(512, 9);
  for (const auto& [codec, levels] : {std::pair{&int8_codec, 128}, {&int4_codec, 8}}) {
    Bytes bytes(codec->bytes(values.size()));
    codec->encode(values, bytes);
    Values back(values.size());
    codec->decode(bytes, back);
    float least = INFINITY;
    float most = 0;
    for (const float value : values) {
      least = std::min(least, std::abs(value));
      most = std::max(most, std::abs(value));
    }
    std::array<BFloat16, 2> stored;
    std::memcpy(stored.data(), bytes.data(), sizeof stored);
    const Values ends = {to_float(stored[0]), to_float(stored[1])};
    EXPECT_TRUE(ends[0] <= least && ends[0] >= least * (1 - 0x1p-7F)) << "rounded outward";
    EXPECT_TRUE(ends[1] >= most && ends[1] <= most * (1 + 0x1p-7F)) << "rounded outward";
    for (std::size_t i = 0; i < values.size(); ++i) {
      float nearest = INFINITY;
      for (int level = 0; level < levels; ++level) {
        const float at = ends[0] + (ends[1] - ends[0]) * static_cast<float>(level) / static_cast<float>(levels - 1);
        nearest = std::min(nearest, std::abs(at - std::abs(values[i])));
      }
      EXPECT_NEAR(std::abs(back[i] - values[i]), nearest, 1e-5) << i;
    }
  }
}

TEST(ValueCodec, TwoBitsAreASignAndAMeanOfHalfTheRange) {
  const Values values = {1, -2, 3, -8, 9, -10};  // the middle of 1 to 10 is 5.5
  Bytes bytes(int2_codec.bytes(values.size()));
  ASSERT_EQ(bytes.size(), 6);
  int2_codec.encode(values, bytes);
  Values back(values.size());
  int2_codec.decode(bytes, back);
  EXPECT_EQ(back, (Values{2, -2, 2, -9, 9, -9}));
}

TEST(ValueCodec, HostileScalesAreRefused) {
  Selection selection{{1, 5, 6}, {1, -2, 3}};
  for (const ValueCodec* codec : value_codecs()) {
    Bytes payload;
    write_sparse(selection, 10, raw32_codec, *codec, payload);
    const BytesView body = open_payload(payload, Format::sparse).value();
    for (std::size_t at = body.size() - codec->bytes(3); at < body.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        Bytes hostile;
        PayloadWriter writer(hostile, Format::sparse, body.size());
        std::ranges::copy(body, writer.body().begin());
        writer.body()[at] = static_cast<std::byte>(value);
        writer.seal();
        Selection read;
        const auto done = read_sparse(hostile, 10, read);
        if (!done) {
          EXPECT_EQ(done.error().code, Errc::malformed);
          continue;
        }
        for (const float decoded : read.values) EXPECT_TRUE(std::isfinite(decoded));
      }
    }
  }
}

TEST(ValueCodec, PayloadsOfOneInAThousandAreThisMuchSmaller) {
  const at::Tensor x = gaussian(1 << 22, 10);
  const auto ratio = [&](const std::string& codec) {
    TopK topk({.ratio = 0.001, .codecs = {.value = codec}});
    return static_cast<double>(x.nbytes()) / static_cast<double>(encoded(topk, x, round_at(0)).size());
  };
  EXPECT_GT(ratio("fp16"), 1'140);
  EXPECT_GT(ratio("bf16"), 1'140);
  EXPECT_GT(ratio("int8"), 1'580);
  EXPECT_GT(ratio("int4"), 2'000);
  EXPECT_GT(ratio("int2"), 2'250);
}

TEST(ValueCodec, IdsAreDistinctAndUnknownOnesRefused) {
  for (const ValueCodec* codec : value_codecs()) EXPECT_EQ(value_codec(codec->id).value(), codec);
  EXPECT_EQ(value_codec(15).error().code, Errc::unsupported);
}

}  // namespace
}  // namespace weir::compressors::test
