// Every operator on every element type over every topology, and how far a majority can count.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/collectives/choices.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

class ElementTypes : public ::testing::TestWithParam<Choice> {
 protected:
  /// Combines values of each rank, and compares with what every element should be, and between ranks.
  template <class Number>
  void reduces(Ranks& ranks, ReduceOp op, Element element, double tolerance) const {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{150'001}}) {
      std::vector<std::vector<Number>> values(ranks.size());
      for (std::uint32_t r = 0; r < ranks.size(); ++r) {
        for (const float value : noise(r, count)) values[r].push_back(from(value, Number()));
      }
      const auto before = values;
      expect_success(ranks.run([&](Communicator& group) -> Task<> {
        const auto collective = GetParam().make(group);
        co_return co_await collective->all_reduce(buffer_of(values[group.rank()], element), op, Subject());
      }));
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<double> of_element;
        for (const auto& of_rank : before) of_element.push_back(number(of_rank[i]));
        ASSERT_NEAR(number(values[0][i]), combined(op, of_element), tolerance)
            << "element " << i << " of " << count << ", " << ranks.size() << " ranks";
      }
      for (std::uint32_t r = 1; r < ranks.size(); ++r) {
        ASSERT_EQ(std::memcmp(values[0].data(), values[r].data(), count * sizeof(Number)), 0) << "rank " << r;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Catalog, ElementTypes, ::testing::ValuesIn(all_choices()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(ElementTypes, AreCombinedByEveryOperator) {
  constexpr std::pair<ReduceOp, double> operators[] = {
      {ReduceOp::sum, 0.04}, {ReduceOp::mean, 0.005}, {ReduceOp::min, 0}, {ReduceOp::max, 0}, {ReduceOp::majority, 0}};
  for (const std::uint32_t size : {2U, 3U, 4U, 7U, 8U}) {
    if (!GetParam().type->fits(size)) continue;
    const NetworkModel model{.latency_seconds = 1e-4,
                             .jitter_seconds = 1e-2,
                             .bytes_per_second = 1e8,
                             .window_bytes = 300'000,
                             .seed = GetParam().servers + 100 * size,
                             .ranks_per_host = 3};
    const auto ranks = std::make_unique<InProcessRanks>(size, model, Loss::ends_the_group);
    for (const auto& [op, tolerance] : operators) {
      SCOPED_TRACE("operator " + std::to_string(static_cast<int>(op)));
      reduces<float>(*ranks, op, Element::float32, tolerance / 100);
      reduces<Half>(*ranks, op, Element::float16, 2 * tolerance);
      reduces<BFloat16>(*ranks, op, Element::bfloat16, 20 * tolerance);
    }
  }
}

/// The majority of `positive` ranks that vote for and, behind them, the others, which vote against.
template <class Number>
std::vector<Result<void>> vote(const Choice& choice, std::uint32_t size, std::uint32_t positive, Element element,
                               float due) {
  InProcessRanks ranks(size, NetworkModel{}, Loss::ends_the_group);
  std::vector<std::vector<Number>> votes(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    votes[rank].assign(3, from(rank < positive ? 2.5F : -0.5F, Number()));
  }
  const auto results = ranks.run([&](Communicator& group) -> Task<> {
    const auto collective = choice.make(group);
    co_return co_await collective->all_reduce(buffer_of(votes[group.rank()], element), ReduceOp::majority, Subject());
  });
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (!results[rank]) continue;
    EXPECT_EQ(number(votes[rank][0]), due) << "rank " << rank << " of " << size;
  }
  return results;
}

TEST_P(ElementTypes, AMajorityIsRightOrRefused) {
  for (const std::uint32_t size : {511U, 512U}) {
    if (!GetParam().type->fits(size)) continue;
    expect_success(vote<BFloat16>(GetParam(), size, size / 2 + 1, Element::bfloat16, 1));
    expect_success(vote<BFloat16>(GetParam(), size, (size - 1) / 2, Element::bfloat16, -1));
    if (size % 2 == 0) expect_success(vote<BFloat16>(GetParam(), size, size / 2, Element::bfloat16, 0));
  }
  for (const std::uint32_t size : {513U, 1024U}) {
    if (GetParam().type->fits(513) != (size == 513)) continue;
    const auto results = vote<BFloat16>(GetParam(), size, size / 2 + 1, Element::bfloat16, 1);
    for (const auto& result : results) {
      ASSERT_FALSE(result);
      EXPECT_TRUE(result.error().code == Errc::unsupported || result.error().code == Errc::malformed);
    }
    EXPECT_EQ(results[0].error().code, Errc::unsupported) << results[0].error().message();
    EXPECT_NE(results[0].error().context.find("count 512 at most"), std::string::npos) << results[0].error().message();
    expect_success(vote<Half>(GetParam(), size, size / 2 + 1, Element::float16, 1));
    expect_success(vote<float>(GetParam(), size, size / 2 + 1, Element::float32, 1));
  }
}

}  // namespace
}  // namespace weir::collectives
