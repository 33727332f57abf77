#include "training/exchange/gathered_mean.hpp"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/errc.hpp"
#include "compressors/catalog.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/flat.hpp"
#include "exchange_cases.hpp"

namespace weir::training {
namespace {

using compressors::Compressor;
using compressors::flat;
using compressors::Reduction;
using compressors::Round;
using compressors::Selection;

constexpr std::uint32_t world = 5;
constexpr std::uint32_t own_rank = 1;

/// Sizes with several ranges for each thread, with less than one, and with none.
const std::vector<std::vector<std::int64_t>> shapes = {{200, 1003}, {70'001}, {4, 3}, {0, 3}};

/// What the ranks have sent of a tensor in the last pass of a round.
struct Sent {
  std::unique_ptr<Compressor> compressor;  ///< of one rank
  Round round;                             ///< of that rank, in the last pass
  std::vector<Bytes> payloads;
  Selection own;  ///< the entries of that rank's payload

  std::vector<BytesView> views() const { return {payloads.begin(), payloads.end()}; }
  GatheredMean::Payloads of(std::span<const BytesView> views) const {
    const bool sparse = compressor->traits().sparse;
    return {.of_ranks = views, .round = round, .share = 1.0F / world, .sent = sparse ? &own : nullptr};
  }
};

/// The result of a pass that is not the last.
std::vector<BytesView> combined(Reduction reduction, std::vector<Bytes>& payloads) {
  if (reduction == Reduction::gather) return {payloads.begin(), payloads.end()};
  const auto floats = [](Bytes& bytes) { return reinterpret_cast<float*>(bytes.data()); };
  const bool largest = reduction == Reduction::max;
  for (std::size_t rank = 1; rank < payloads.size(); ++rank) {
    for (std::size_t i = 0; i < payloads[0].size() / sizeof(float); ++i) {
      const float a = floats(payloads[0])[i];
      const float b = floats(payloads[rank])[i];
      floats(payloads[0])[i] = largest ? std::max(a, b) : a + b;
    }
  }
  return {payloads[0]};
}

/// Nothing if the payloads of the last pass are summed.
std::optional<Sent> sent(const std::string& name, const nlohmann::json& params, at::IntArrayRef shape) {
  std::vector<std::unique_ptr<Compressor>> ranks;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    ranks.push_back(compressors::builtin().make_compressor(name, params).value());
  }
  const auto passes = ranks[0]->traits().passes;
  if (passes.back() != Reduction::gather) return std::nullopt;
  Sent all{.compressor = nullptr,
           .round = {.seed = 3, .epoch = 1e6, .tensor = 2, .world = world},
           .payloads = std::vector<Bytes>(world),
           .own = {}};
  for (std::uint32_t pass = 0; pass < passes.size(); ++pass) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      torch::manual_seed(rank);
      Round round = all.round;
      round.pass = pass;
      round.rank = rank;
      const bool keeps = rank == own_rank && ranks[0]->traits().sparse && pass + 1 == passes.size();
      all.payloads[rank].clear();
      ranks[rank]->encode(torch::randn(shape), round, all.payloads[rank], keeps ? &all.own : nullptr).value();
    }
    std::vector<Bytes> results = all.payloads;
    const auto views = combined(passes[pass], results);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      Round round = all.round;
      round.pass = pass;
      round.rank = rank;
      ranks[rank]->absorb(views, round).value();
    }
  }
  all.compressor = std::move(ranks[own_rank]);
  all.round.rank = own_rank;
  all.round.pass = static_cast<std::uint32_t>(passes.size()) - 1;
  return all;
}

/// The same mean, one payload after the other.
at::Tensor one_by_one(const Sent& sent, at::IntArrayRef shape) {
  at::Tensor sum = torch::zeros(shape);
  Round round = sent.round;
  for (round.rank = 0; round.rank < world; ++round.rank) {
    sent.compressor->decode_add(sent.payloads[round.rank], round, 1.0F / world, sum).value();
  }
  return sum;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  return std::ranges::equal(flat(a), flat(b), {}, bits, bits);
}

class EveryGathered : public ::testing::TestWithParam<std::string> {
 protected:
  /// Calls body(params) with the defaults and with every set of parameters.
  template <class Body>
  void for_each_params(const Body& body) {
    std::vector<nlohmann::json> all = testing::compressor_params().at(GetParam());
    all.push_back(nullptr);
    for (const auto& params : all) {
      SCOPED_TRACE(params.dump());
      body(params);
    }
  }
  void TearDown() override { at::set_num_threads(threads_before_); }

 private:
  const int threads_before_ = at::get_num_threads();
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : compressors::builtin().compressors()) all.push_back(entry.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(GatheredMean, EveryGathered, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryGathered, HasTheBitsOfOneAfterTheOtherOnAnyNumberOfThreads) {
  for_each_params([&](const nlohmann::json& params) {
    GatheredMean gathered;  // serves tensors of all sizes
    for (const auto& shape : shapes) {
      const auto of_ranks = sent(GetParam(), params, shape);
      if (!of_ranks) return;
      at::set_num_threads(1);
      const auto expected = one_by_one(*of_ranks, shape);
      const auto views = of_ranks->views();
      for (const int threads : {1, 2, 3, 7}) {
        at::set_num_threads(threads);
        Mean mean{.tensor = torch::zeros(shape), .sparse = of_ranks->compressor->traits().sparse, .positions = {}};
        const auto added = gathered.add(*of_ranks->compressor, of_ranks->of(views), mean);
        ASSERT_TRUE(added) << added.error().message();
        EXPECT_TRUE(same_bits(mean.tensor, expected)) << threads << " threads, " << at::IntArrayRef(shape);
        for (const auto position : mean.positions) flat(mean.tensor)[position] = 0;
        if (!mean.sparse) continue;
        EXPECT_TRUE(same_bits(mean.tensor, torch::zeros(shape))) << "every position is noted";
      }
    }
  });
}

TEST_P(EveryGathered, NamesTheRankOfAMalformedPayload) {
  for_each_params([&](const nlohmann::json& params) {
    for (const auto& shape : shapes) {
      auto of_ranks = sent(GetParam(), params, shape);
      if (!of_ranks) return;
      at::set_num_threads(3);
      constexpr std::uint32_t culprit = 3;
      Bytes& payload = of_ranks->payloads[culprit];
      payload.back() ^= std::byte{1};  // under the checksum
      const auto views = of_ranks->views();
      GatheredMean gathered;
      Mean mean{.tensor = torch::zeros(shape), .sparse = false, .positions = {}};
      const auto added = gathered.add(*of_ranks->compressor, of_ranks->of(views), mean);
      ASSERT_FALSE(added) << at::IntArrayRef(shape);
      EXPECT_EQ(added.error().code, Errc::malformed);
      EXPECT_THAT(added.error().context, ::testing::StartsWith("rank 3: "));
    }
  });
}

/// A payload with a good checksum around a body whose byte `at` is another.
Bytes changed(BytesView payload, std::size_t at, std::byte value) {
  const auto format = static_cast<compressors::Format>(payload[1]);
  const BytesView body = compressors::open_payload(payload, format).value();
  Bytes out;
  compressors::PayloadWriter writer(out, format, body.size());
  std::ranges::copy(body, writer.body().begin());
  writer.body()[at] = value;
  writer.seal();
  return out;
}

TEST(GatheredMean, NamesTheFirstRankWhoseCodeIsRefusedInTheMiddleOfATensor) {
  const std::vector<std::int64_t> shape = {400'000};
  auto of_ranks = sent("terngrad", {{"scale", "local"}}, shape);
  // 255 is not five digits of base 3. One rank has it in the first thread's range, one before it in the last one's.
  const std::size_t end = of_ranks->payloads[0].size() - 20;
  of_ranks->payloads[4] = changed(of_ranks->payloads[4], 100, std::byte{255});
  of_ranks->payloads[2] = changed(of_ranks->payloads[2], end, std::byte{255});
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    GatheredMean gathered;
    Mean mean{.tensor = torch::zeros(shape), .sparse = false, .positions = {}};
    const auto views = of_ranks->views();
    const auto added = gathered.add(*of_ranks->compressor, of_ranks->of(views), mean);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, Errc::malformed);
    EXPECT_THAT(added.error().context, ::testing::StartsWith("rank 2: "));
  }
  at::set_num_threads(before);
}

/// Few entries stay on one thread; these are as many as several threads share.
TEST(GatheredMean, ManyEntriesHaveTheBitsOfOneAfterTheOtherOnAnyNumberOfThreads) {
  const std::vector<std::int64_t> shape = {1009, 1003};
  const auto of_ranks = sent("topk", {{"ratio", 0.4}}, shape);
  const auto views = of_ranks->views();
  ASSERT_GT(views[0].size() + views[2].size() + views[3].size() + views[4].size(), 4U << 20);
  const auto expected = one_by_one(*of_ranks, shape);
  const int before = at::get_num_threads();
  GatheredMean gathered;
  for (const int threads : {1, 2, 3, 7}) {
    at::set_num_threads(threads);
    Mean mean{.tensor = torch::zeros(shape), .sparse = true, .positions = {}};
    ASSERT_TRUE(gathered.add(*of_ranks->compressor, of_ranks->of(views), mean));
    EXPECT_TRUE(same_bits(mean.tensor, expected)) << threads;
    for (const auto position : mean.positions) flat(mean.tensor)[position] = 0;
    EXPECT_TRUE(same_bits(mean.tensor, torch::zeros(shape))) << "every position is noted, " << threads;
  }
  at::set_num_threads(before);
}

TEST(GatheredMean, DoesNotReadWhatThisRankHasSentItself) {
  const std::vector<std::int64_t> shape = {300, 300};
  auto of_ranks = sent("topk", {{"ratio", 0.1}}, shape);
  const auto expected = one_by_one(*of_ranks, shape);
  of_ranks->payloads[own_rank].clear();
  const auto views = of_ranks->views();
  GatheredMean gathered;
  Mean mean{.tensor = torch::zeros(shape), .sparse = true, .positions = {}};
  ASSERT_TRUE(gathered.add(*of_ranks->compressor, of_ranks->of(views), mean));
  EXPECT_TRUE(same_bits(mean.tensor, expected));
  EXPECT_EQ(mean.positions.size(), world * 9'000U);
}

}  // namespace
}  // namespace weir::training
