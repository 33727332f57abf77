// Every operator on every element type over every topology, and how far a majority can count.

#include <array>
#include <utility>

#include "tests/collectives/choices.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// By operator: how far the result of up to nine ranks' noise may be from the right one, times inexactness().
constexpr std::array<std::pair<ReduceOp, double>, 5> operators{
    {{ReduceOp::sum, 0.04}, {ReduceOp::mean, 0.005}, {ReduceOp::min, 0}, {ReduceOp::max, 0}, {ReduceOp::majority, 0}}};

constexpr Element element_of(float) { return Element::float32; }
constexpr Element element_of(Half) { return Element::float16; }
constexpr Element element_of(BFloat16) { return Element::bfloat16; }

constexpr double inexactness(Element element) {
  if (element == Element::float32) return 0.01;
  return element == Element::float16 ? 2 : 20;
}

/// Calls `check` with a number of each element type.
template <class Check>
void for_each_type(const Check& check) {
  check(float());
  check(Half());
  check(BFloat16());
}

/// Combines `before`, which has the values of each rank, and compares with what every element should be, and between
/// ranks.
template <class Number>
void reduces(Ranks& ranks, const Choice& choice, ReduceOp op, double tolerance,
             const std::vector<std::vector<Number>>& before) {
  auto values = before;
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    const auto collective = choice.make(group);
    const Buffer own = buffer_of(values[group.rank()], element_of(Number()));
    co_return co_await collective->all_reduce(own, op, Subject());
  }));
  expect_each_combined<Number>(values[0], before, 0, op, tolerance);
  expect_same_bits(values);
}

/// The same for the chunk of each rank.
template <class Number>
void scatters(Ranks& ranks, const Choice& choice, ReduceOp op, double tolerance, std::size_t count) {
  const auto before = noise_of_ranks<Number>(ranks.size(), count);
  auto values = before;
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    const auto collective = choice.make(group);
    const Buffer own = buffer_of(values[group.rank()], element_of(Number()));
    co_return co_await collective->reduce_scatter(own, op, Subject());
  }));
  std::size_t first = 0;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::size_t of_rank = chunk_of(buffer_of(values[rank], element_of(Number())), ranks.size(), rank).count();
    expect_each_combined<Number>(std::span(values[rank]).subspan(first, of_rank), before, first, op, tolerance);
    first += of_rank;
  }
  EXPECT_EQ(first, count);
}

/// Copies one rank's values to all, bit for bit.
template <class Number>
void copies(Ranks& ranks, const Choice& choice, std::uint32_t root, std::size_t count) {
  const auto before = noise_of_ranks<Number>(ranks.size(), count);
  auto values = before;
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    const auto collective = choice.make(group);
    const Buffer own = buffer_of(values[group.rank()], element_of(Number()));
    co_return co_await collective->broadcast(own, root, Subject());
  }));
  values.push_back(before[root]);
  expect_same_bits(values);
}

constexpr std::size_t counts[] = {0, 1, 33, 1000};

class ElementTypes : public ::testing::TestWithParam<Choice> {
 protected:
  /// The numbers of ranks from 1 to 9 that the topology works for.
  static std::vector<std::uint32_t> sizes() {
    std::vector<std::uint32_t> fitting;
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      if (GetParam().type->fits(ranks)) fitting.push_back(ranks);
    }
    return fitting;
  }

  /// Three ranks on a host; frames of different links overtake each other, and hardly more than one fits on the way.
  static InProcessRanks ranks_of(std::uint32_t size) {
    const NetworkModel model{.latency_seconds = 1e-4,
                             .jitter_seconds = 1e-2,
                             .bytes_per_second = 1e8,
                             .window_bytes = 300'000,
                             .seed = GetParam().servers + 100 * size,
                             .ranks_per_host = 3};
    return {size, model, Loss::ends_the_group};
  }

  /// Calls check(ranks, a number, operator, how far its results may be from the right ones, values of each rank).
  template <class Check>
  static void for_each_reduction(const Check& check) {
    for (const std::uint32_t size : sizes()) {
      InProcessRanks ranks = ranks_of(size);
      for_each_type([&](auto number) {
        for (const auto& [op, tolerance] : operators) {
          SCOPED_TRACE("operator " + std::to_string(static_cast<int>(op)));
          const double most = tolerance * inexactness(element_of(number));
          for (const std::size_t count : counts) check(ranks, number, op, most, count);
        }
      });
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Catalog, ElementTypes, ::testing::ValuesIn(all_choices()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(ElementTypes, AreCombinedByEveryOperator) {
  for_each_reduction([]<class Number>(Ranks& ranks, Number, ReduceOp op, double tolerance, std::size_t count) {
    reduces(ranks, GetParam(), op, tolerance, noise_of_ranks<Number>(ranks.size(), count));
  });
}

TEST_P(ElementTypes, AreScatteredByEveryOperator) {
  for_each_reduction([]<class Number>(Ranks& ranks, Number, ReduceOp op, double tolerance, std::size_t count) {
    scatters<Number>(ranks, GetParam(), op, tolerance, count);
  });
}

TEST_P(ElementTypes, AreCopied) {
  for (const std::uint32_t size : sizes()) {
    InProcessRanks ranks = ranks_of(size);
    for_each_type([&]<class Number>(Number) {
      for (const std::size_t count : counts) copies<Number>(ranks, GetParam(), size / 2, count);
    });
  }
}

/// So many values of each rank that a chunk takes two frames, the second of them not full. They are small whole
/// numbers, whose sums and means over these ranks every format has exactly.
template <class Number>
std::vector<std::vector<Number>> chunks_of_two_frames(std::uint32_t ranks) {
  const std::size_t frame = Communicator::piece_bytes_max / sizeof(Number);
  std::vector<std::vector<Number>> values(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    values[rank].resize(ranks * (frame + frame / 2) + 1);
    for (std::size_t i = 0; i < values[rank].size(); ++i) {
      values[rank][i] = from(static_cast<float>((i + 5 * rank) % 16), Number());
    }
  }
  return values;
}

// A covering choice: the frames of a chunk are combined in the same way, whatever the operator and the type are.
TEST_P(ElementTypes, AreCombinedInChunksOfSeveralFrames) {
  for (const std::uint32_t size : sizes()) {
    InProcessRanks ranks = ranks_of(size);
    switch (size) {
      case 4: reduces(ranks, GetParam(), ReduceOp::sum, 0, chunks_of_two_frames<float>(size)); break;
      case 5: reduces(ranks, GetParam(), ReduceOp::sum, 0, chunks_of_two_frames<Half>(size)); break;
      case 8: reduces(ranks, GetParam(), ReduceOp::mean, 0, chunks_of_two_frames<BFloat16>(size)); break;
      case 9: reduces(ranks, GetParam(), ReduceOp::max, 0, chunks_of_two_frames<float>(size)); break;
      default: break;
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
