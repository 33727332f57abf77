// What every compressor promises, whatever it does. A new one is tested by standing in the catalog.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

using ::testing::HasSubstr;

/// Each test runs for one compressor, with every case of it.
class CompressorContract : public ::testing::TestWithParam<std::string> {
 protected:
  void for_each_case(const std::function<void()>& check) {
    for (const Case& it : cases()) {
      if (it.name != GetParam()) continue;
      SCOPED_TRACE(::testing::PrintToString(it));
      case_ = it;
      compressor_ = it.make();
      check();
    }
  }
  Bytes encode(const at::Tensor& x) { return encoded(*compressor_, x, round_); }

  const Round round_ = round_at(3);
  Case case_;
  std::unique_ptr<Compressor> compressor_;
};

/// What only compressors promise whose last pass is gathered.
class GatheredContract : public CompressorContract {};

/// What only compressors promise whose last pass is summed.
class SummedContract : public CompressorContract {};

std::vector<std::string> names(std::initializer_list<Reduction> wanted) {
  std::vector<std::string> found;
  for (const CompressorEntry& entry : builtin().compressors()) {
    const Reduction last = entry.make(nullptr).value()->traits().passes.back();
    if (std::ranges::find(wanted, last) != wanted.end()) found.push_back(entry.name);
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Catalog, CompressorContract, ::testing::ValuesIn(names({Reduction::sum, Reduction::gather})),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Catalog, GatheredContract, ::testing::ValuesIn(names({Reduction::gather})),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Catalog, SummedContract, ::testing::ValuesIn(names({Reduction::sum})),
                         [](const auto& info) { return info.param; });

TEST_P(CompressorContract, KeepsItsErrorBound) {
  for_each_case([&] {
    for (const at::Tensor& x : {gaussian(20'000, 1), sparse(20'000, 2), heavy_tailed(20'000, 3), gaussian(37, 4)}) {
      const at::Tensor y = decoded(*compressor_, encode(x), x, round_);
      const double bound = compressor_->error_bound(static_cast<std::uint64_t>(x.numel()), round_);
      EXPECT_LE(squared_norm(x - y), bound * squared_norm(x) * (1 + 1e-6));
      EXPECT_TRUE(!compressor_->traits().lossless || at::equal(x, y));
      EXPECT_TRUE(!compressor_->traits().biased || bound < 1) << "a biased compressor contracts";
    }
  });
}

TEST_P(CompressorContract, DecodesIntoASumWithAWeight) {
  for_each_case([&] {
    const at::Tensor x = gaussian(5'000, 5).reshape({50, 100});
    const Bytes payload = encode(x);
    const at::Tensor y = decoded(*compressor_, payload, x, round_);
    at::Tensor sum = at::ones_like(x);
    ASSERT_TRUE(compressor_->decode_add(payload, round_, -0.25F, sum));
    EXPECT_TRUE(same_bits(sum, 1 + y * -0.25F));
  });
}

TEST_P(CompressorContract, IsAFunctionOfTensorAndRound) {
  for_each_case([&] {
    const at::Tensor x = gaussian(9'000, 6);
    const Bytes expected = encode(x);
    encode(heavy_tailed(30'000, 7));  // what went before leaves no trace
    EXPECT_EQ(encode(x), expected);
    std::vector<Bytes> others(4);
    std::vector<std::thread> threads;
    for (Bytes& other : others) {
      threads.emplace_back([&] { other = encoded(*case_.make(), x, round_); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Bytes& other : others) EXPECT_EQ(other, expected);
  });
}

TEST_P(CompressorContract, Appends) {
  for_each_case([&] {
    const at::Tensor x = gaussian(700, 8);
    Bytes out = {std::byte{1}, std::byte{2}};
    ASSERT_TRUE(compressor_->encode(x, round_, out));
    EXPECT_EQ(out[1], std::byte{2});
    EXPECT_TRUE(std::ranges::equal(BytesView(out).subspan(2), encode(x)));
  });
}

TEST_P(GatheredContract, PayloadsCanBeCutApart) {
  for_each_case([&] {
    const Bytes first = encode(gaussian(700, 8));
    const Bytes second = encode(gaussian(3, 9));
    Bytes stream = first;
    stream.insert(stream.end(), second.begin(), second.end());
    BytesView rest = stream;
    EXPECT_TRUE(std::ranges::equal(take_payload(rest).value(), first));
    EXPECT_TRUE(std::ranges::equal(take_payload(rest).value(), second));
    EXPECT_TRUE(rest.empty());
  });
}

TEST_P(CompressorContract, TakesUnusualTensors) {
  for_each_case([&] {
    const std::vector<at::Tensor> unusual = {
        at::empty({0}, at::kFloat),
        at::empty({0, 3}, at::kFloat),
        at::full({}, 2.5F),
        at::full({1}, -0.5F),
        at::zeros({1000}),
        at::full({4096}, -3.0F),
        at::full({4096}, std::numeric_limits<float>::denorm_min()),
        at::full({4096}, std::numeric_limits<float>::max()),
        at::cat({at::zeros({100'000}), at::ones({1})}),
    };
    for (const at::Tensor& x : unusual) {
      const at::Tensor y = decoded(*compressor_, encode(x), x, round_);
      EXPECT_LE(squared_norm(x - y), squared_norm(x) * (1 + 1e-6)) << x.sizes();
      EXPECT_TRUE(x.numel() != 1 || same_bits(x, y)) << "one entry is always sent";
    }
  });
}

TEST_P(CompressorContract, ConvertsOtherLayoutsAndFloats) {
  for_each_case([&] {
    const at::Tensor x = gaussian(60 * 70, 10).reshape({60, 70});
    EXPECT_EQ(encode(x.t()), encode(x.t().contiguous()));
    EXPECT_EQ(encode(x.to(at::kDouble)), encode(x));
    EXPECT_EQ(encode(x.to(at::kHalf)), encode(x.to(at::kHalf).to(at::kFloat)));
    EXPECT_EQ(encode(x.to(at::kBFloat16)), encode(x.to(at::kBFloat16).to(at::kFloat)));
    Bytes out;
    EXPECT_EQ(compressor_->encode(at::ones({4}, at::kLong), round_, out).error().code, Errc::invalid_argument);
    EXPECT_EQ(compressor_->encode(at::Tensor(), round_, out).error().code, Errc::invalid_argument);
  });
}

TEST_P(CompressorContract, RefusesWhatIsNotFiniteAndNamesTheTensor) {
  for_each_case([&] {
    for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
      for (const std::int64_t entries : {1, 500, 40'000}) {
        for (const std::int64_t at : {std::int64_t{0}, entries / 3, entries - 1}) {
          at::Tensor x = gaussian(entries, 11);
          x.data_ptr<float>()[at] = bad;
          Bytes out = {std::byte{7}};
          const auto refused = compressor_->encode(x, round_at(5, 12), out);
          ASSERT_FALSE(refused) << bad << " at " << at << " of " << entries;
          EXPECT_EQ(refused.error().code, Errc::invalid_argument);
          EXPECT_THAT(refused.error().context, HasSubstr("tensor 12"));
          EXPECT_THAT(refused.error().context, HasSubstr("entry " + std::to_string(at)));
          EXPECT_EQ(out, Bytes{std::byte{7}});
        }
      }
    }
    EXPECT_FALSE(compressor_->encode(at::full({10'000}, NAN), round_, *std::make_unique<Bytes>()));
  });
}

TEST_P(CompressorContract, RefusesDestinationsItCannotAddTo) {
  for_each_case([&] {
    const at::Tensor x = gaussian(36, 12).reshape({6, 6});
    const Bytes payload = encode(x);
    const auto code_for = [&](at::Tensor sum) { return compressor_->decode_add(payload, round_, 1, sum).error().code; };
    EXPECT_EQ(code_for(at::zeros({6, 6}).t()), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::zeros({6, 7}).slice(1, 0, 6)), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::zeros({6, 6}, at::kDouble)), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::Tensor()), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::zeros({37})), Errc::malformed);
    EXPECT_EQ(code_for(at::zeros({0})), Errc::malformed);
  });
}

TEST_P(CompressorContract, SurvivesTruncationAtEveryByte) {
  for_each_case([&] {
    const at::Tensor x = gaussian(300, 13);
    const Bytes payload = encode(x);
    for (std::size_t size = 0; size < payload.size(); ++size) {
      const Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size));
      at::Tensor sum = at::zeros_like(x);
      const auto refused = compressor_->decode_add(cut, round_, 1, sum);
      ASSERT_FALSE(refused) << size;
      EXPECT_EQ(refused.error().code, Errc::malformed);
    }
  });
}

/// Decodes `payload` and checks only that it is refused or decoded; the sanitizers and the bounds of `sum`
/// see the rest.
void decode_hostile(Compressor& compressor, BytesView payload, std::int64_t entries) {
  at::Tensor sum = at::zeros({entries});
  const auto done = compressor.decode_add(payload, round_at(3), 1, sum);
  EXPECT_TRUE(done || done.error().code == Errc::malformed || done.error().code == Errc::unsupported);
  std::vector<std::uint32_t> positions;
  if (!compressor.support(payload, round_at(3), static_cast<std::uint64_t>(entries), positions)) return;
  for (const std::uint32_t position : positions) EXPECT_LT(position, entries);
}

TEST_P(CompressorContract, SurvivesMutations) {
  for_each_case([&] {
    const at::Tensor x = gaussian(300, 14);
    const Bytes payload = encode(x);
    const std::size_t step = payload.size() / 400 + 1;
    for (std::size_t at = 0; at < payload.size(); at += step) {
      for (const unsigned flip : {0x01U, 0x80U, 0xFFU, 0x55U}) {
        Bytes hostile = payload;
        hostile[at] ^= static_cast<std::byte>(flip);
        decode_hostile(*compressor_, hostile, x.numel());
      }
    }
  });
}

TEST_P(GatheredContract, NoticesEveryChangedByte) {
  for_each_case([&] {
    const at::Tensor x = gaussian(300, 14);
    const Bytes payload = encode(x);
    for (std::size_t at = 0; at < payload.size(); ++at) {
      Bytes hostile = payload;
      hostile[at] ^= std::byte{0x10};
      at::Tensor sum = at::zeros_like(x);
      EXPECT_FALSE(compressor_->decode_add(hostile, round_, 1, sum)) << "byte " << at;
    }
  });
}

TEST_P(GatheredContract, SurvivesMutationsUnderAGoodChecksum) {
  for_each_case([&] {
    const at::Tensor x = gaussian(300, 15);
    const Bytes payload = encode(x);
    const BytesView body = open_payload(payload, static_cast<Format>(payload[1])).value();
    const std::size_t step = body.size() / 400 + 1;
    for (std::size_t at = 0; at < body.size(); at += at < 16 ? 1 : step) {
      for (unsigned value = 0; value < 256; value += at < 16 ? 1 : 51) {
        Bytes hostile;
        PayloadWriter writer(hostile, static_cast<Format>(payload[1]), body.size());
        std::ranges::copy(body, writer.body().begin());
        writer.body()[at] = static_cast<std::byte>(value);
        writer.seal();
        decode_hostile(*compressor_, hostile, x.numel());
      }
    }
  });
}

TEST_P(CompressorContract, SaysWhichEntriesItSent) {
  for_each_case([&] {
    const at::Tensor x = gaussian(4'000, 16);
    const Bytes payload = encode(x);
    std::vector<std::uint32_t> positions;
    const auto known = compressor_->support(payload, round_, 4'000, positions);
    if (!compressor_->traits().sparse) {
      EXPECT_EQ(known.error().code, Errc::unsupported);
      return;
    }
    ASSERT_TRUE(known);
    EXPECT_EQ(std::ranges::adjacent_find(positions, std::greater_equal<>()), positions.end()) << "they ascend";
    const at::Tensor y = decoded(*compressor_, payload, x, round_);
    EXPECT_EQ(static_cast<std::int64_t>(positions.size()), at::count_nonzero(y).item<std::int64_t>());
    for (const std::uint32_t position : positions) EXPECT_NE(y.data_ptr<float>()[position], 0);
    EXPECT_EQ(compressor_->support(payload, round_, 4'001, positions).error().code, Errc::malformed);
  });
}

TEST_P(SummedContract, SumsOnTheWire) {
  for_each_case([&] {
    const at::Tensor x = gaussian(1'000, 17);
    const at::Tensor y = gaussian(1'000, 18);
    Bytes sum = encode(x);
    const Bytes other = encode(y);
    ASSERT_EQ(sum.size(), other.size());
    ASSERT_EQ(sum.size() % sizeof(float), 0);
    const auto floats = [](Bytes& bytes) {
      return at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size() / sizeof(float))}, at::kFloat);
    };
    floats(sum).add_(floats(const_cast<Bytes&>(other)));
    EXPECT_TRUE(at::allclose(decoded(*compressor_, sum, x, round_),
                             decoded(*compressor_, encode(x), x, round_) + decoded(*compressor_, other, y, round_)));
  });
}

}  // namespace
}  // namespace weir::compressors::test
