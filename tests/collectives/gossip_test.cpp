#include "collectives/gossip/gossip.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/collectives/group.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// A graph of each kind over that many ranks.
std::vector<Graph> graphs_of(std::uint32_t ranks) {
  std::vector<Graph> all;
  for (const GraphType& type : graphs()) {
    GraphChoice choice{.name = std::string(type.name), .degree = ranks % 2 == 0 ? 3 : 4, .seed = ranks};
    choice.degree = std::min<std::int64_t>(choice.degree, ranks - 1);
    all.push_back(make_graph(ranks, choice).value());
  }
  return all;
}

/// Over every transport.
class GossipOver : public ::testing::TestWithParam<Transport> {
 protected:
  std::unique_ptr<Ranks> make(std::uint32_t size) const { return GetParam().make(size, Loss::ends_the_group); }
};
INSTANTIATE_TEST_SUITE_P(Transports, GossipOver, ::testing::ValuesIn(transports), transport_name);

constexpr std::uint32_t group_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 25};

/// Nothing, one, odd, and several pieces per message that are no multiple of anything.
std::vector<std::size_t> counts_for(std::uint32_t size) {
  if (size > 9) return {33};
  return {0, 1, 33, 140'001};
}

template <class Number>
void mix_once(Ranks& ranks, const Graph& graph, Element element, std::vector<std::vector<Number>>& values) {
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    const Subject about{.version = values[0].size(), .bucket = 2, .part = 0};
    co_return co_await gossip.mix(buffer_of(values[group.rank()], element), about);
  }));
}

double sum_of(const auto& values, std::size_t i) {
  double sum = 0;
  for (const auto& of_rank : values) sum += number(of_rank[i]);
  return sum;
}

/// Mixes once, and compares with the weights' definition, with the sum before and, bit by bit, with ranks between which
/// messages take no time.
template <class Number>
void mixes(Ranks& ranks, const Graph& graph, Element element, std::size_t count, double tolerance) {
  const auto before = noise_of_ranks<Number>(ranks.size(), count);
  auto values = before;
  mix_once(ranks, graph, element, values);
  auto at_once_values = before;
  mix_once(*at_once(ranks.size(), Loss::ends_the_group), graph, element, at_once_values);
  double off = 0;
  double sum_off = 0;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_EQ(count == 0 ? 0 : std::memcmp(values[rank].data(), at_once_values[rank].data(), count * sizeof(Number)), 0)
        << "rank " << rank << " depends on when messages arrive";
    for (std::size_t i = 0; i < count; ++i) {
      double own_weight = 1;
      double mixed = 0;
      for (const std::uint32_t other : graph.neighbours(rank)) {
        const double weight = graph.mixing_weight(rank, other);
        own_weight -= weight;
        mixed += weight * number(before[other][i]);
      }
      mixed += own_weight * number(before[rank][i]);
      off = std::max(off, std::abs(number(values[rank][i]) - mixed));
    }
  }
  for (std::size_t i = 0; i < count; ++i) sum_off = std::max(sum_off, std::abs(sum_of(values, i) - sum_of(before, i)));
  EXPECT_LE(off, tolerance);
  EXPECT_LE(sum_off, ranks.size() * tolerance);
}

TEST_P(GossipOver, MixesTheValuesOfNeighboursInAFixedOrder) {
  for (const std::uint32_t size : group_sizes) {
    const auto ranks = make(size);
    for (const Graph& graph : graphs_of(size)) {
      for (const std::size_t count : counts_for(size)) {
        SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " elements");
        mixes<float>(*ranks, graph, Element::float32, count, 1e-6);
        mixes<Half>(*ranks, graph, Element::float16, count, 3e-3);
        mixes<BFloat16>(*ranks, graph, Element::bfloat16, count, 2e-2);
      }
    }
  }
}

TEST_P(GossipOver, RanksThatAgreeKeepTheirBits) {
  const auto ranks = make(9);
  for (const Graph& graph : graphs_of(9)) {
    std::vector<std::vector<float>> values(9, noise(3, 1000));
    mix_once(*ranks, graph, Element::float32, values);
    for (const auto& of_rank : values) ASSERT_EQ(of_rank, noise(3, 1000));
  }
}

TEST_P(GossipOver, GathersThePayloadsOfNeighbours) {
  for (const std::uint32_t size : group_sizes) {
    const auto ranks = make(size);
    for (const Graph& graph : graphs_of(size)) {
      std::vector<Gathered> gathered(size, Gathered{.payloads = {}, .bytes_max = 4'000'000});
      for (const std::size_t scale : {0UL, 1UL, 999UL, size > 9 ? 1UL : 400'000UL, 3UL}) {  // the last: shrinks again
        std::vector<std::vector<std::uint32_t>> senders(size);
        expect_success(ranks->run([&](Communicator& group) -> Task<> {
          Gossip gossip(group, graph);
          senders[group.rank()].assign(gossip.neighbours().begin(), gossip.neighbours().end());
          const Bytes own = payload_of(group.rank(), group.rank() * scale);
          co_return co_await gossip.gather(own, gathered[group.rank()], Subject());
        }));
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          ASSERT_EQ(senders[rank].size(), graph.degree(rank));
          ASSERT_EQ(gathered[rank].payloads.size(), senders[rank].size());
          for (std::size_t i = 0; i < senders[rank].size(); ++i) {
            const std::uint32_t from = senders[rank][i];
            ASSERT_EQ(gathered[rank].payloads[i], payload_of(from, from * scale)) << from << " to " << rank;
          }
        }
      }
    }
  }
}

TEST_P(GossipOver, SpeaksWithNeighboursOnly) {
  const auto ranks = make(8);
  const Graph graph = make_graph(8, {.name = "ring"}).value();
  constexpr std::size_t count = 100'000;
  std::vector<std::vector<float>> values(8, std::vector<float>(count));
  std::vector<Gathered> gathered(8, Gathered{.payloads = {}, .bytes_max = 50});
  expect_success(ranks->run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    const Buffer buffer = buffer_of(values[group.rank()], Element::float32);
    if (auto done = co_await gossip.mix(buffer, Subject()); !done) co_return done.error();
    const Bytes own(50);
    if (auto done = co_await gossip.gather(own, gathered[group.rank()], Subject()); !done) co_return done.error();
    for (std::uint32_t other = 0; other < group.size(); ++other) {
      const bool neighbour = std::ranges::count(gossip.neighbours(), other) > 0;
      const std::uint64_t due = Communicator::wire_bytes(count * sizeof(float)) + Communicator::wire_bytes(own.size());
      EXPECT_EQ(group.traffic_with(other).sent_bytes, neighbour ? due : 0) << other;
    }
    co_return Result<void>();
  }));
}

TEST_P(GossipOver, AnOperationOfAnotherLengthIsRefused) {
  const auto ranks = make(3);
  const Graph graph = make_graph(3, {.name = "complete"}).value();
  std::vector<std::vector<float>> values(3, std::vector<float>(100));
  values[1].resize(99);
  const auto results = ranks->run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    co_return co_await gossip.mix(buffer_of(values[group.rank()], Element::float32), Subject());
  });
  for (const auto& result : results) EXPECT_FALSE(result);
}

TEST_P(GossipOver, RefusesPayloadsAboveTheLimit) {
  const auto ranks = make(2);
  const Graph graph = make_graph(2, {.name = "ring"}).value();
  std::vector<Gathered> gathered(2);
  gathered[0].bytes_max = 1000;
  gathered[1].bytes_max = 10'000;
  auto results = ranks->run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    const Bytes own(group.rank() == 0 ? 10 : 5000);
    co_return co_await gossip.gather(own, gathered[group.rank()], Subject());
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, Errc::malformed) << results[0].error().message();
  EXPECT_TRUE(gathered[0].payloads[0].empty());
  results = make(2)->run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    Gathered small{.payloads = {}, .bytes_max = 9};
    const Bytes own(10);
    co_return co_await gossip.gather(own, small, Subject());
  });
  for (const auto& result : results) EXPECT_EQ(result.error().code, Errc::invalid_argument);
}

TEST_P(GossipOver, ALostNeighbourEndsIt) {
  const auto ranks = make(5);
  ranks->lose(3);
  const Graph graph = make_graph(5, {.name = "ring"}).value();
  const auto results = ranks->run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    std::vector<float> values(10);
    Result<void> done;
    // Ranks 0 and 1 notice when the loss has gone round.
    while (done) done = co_await gossip.mix(buffer_of(values, Element::float32), Subject());
    co_return done;
  });
  for (const std::uint32_t rank : {0U, 1U, 2U, 4U}) {
    ASSERT_FALSE(results[rank]);
    EXPECT_EQ(results[rank].error().code, Errc::peer_lost);
    EXPECT_NE(results[rank].error().context.find("rank 3"), std::string::npos) << results[rank].error().message();
  }
}

/// The largest magnitude of an eigenvalue of the matrix of weights without the one of the mean, and values of the ranks
/// that contract at just that rate.
struct Slowest {
  double rate = 0;
  std::vector<double> values;
};

std::vector<double> deviation_after_mixing(const Graph& graph, const std::vector<double>& values) {
  std::vector<double> mixed = values;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
    for (const std::uint32_t other : graph.neighbours(rank)) {
      mixed[rank] += graph.mixing_weight(rank, other) * (values[other] - values[rank]);
    }
  }
  double mean = 0;
  for (const double value : mixed) mean += value / graph.ranks();
  for (double& value : mixed) value -= mean;
  return mixed;
}

double length(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// By power iteration, two steps at once because the eigenvalue may be negative.
Slowest slowest(const Graph& graph) {
  Slowest found;
  for (const float value : noise(7, graph.ranks())) found.values.push_back(value);
  found.values = deviation_after_mixing(graph, found.values);
  for (int i = 0; i < 2000 && length(found.values) > 0; ++i) {
    auto next = deviation_after_mixing(graph, deviation_after_mixing(graph, found.values));
    const double rate = std::sqrt(length(next) / length(found.values));
    if (rate < 1e-6) return {};
    found.rate = rate;
    for (double& value : next) value /= rate * rate;
    found.values = next;
  }
  return found;
}

/// How far the ranks' values are from their mean.
double deviation(const std::vector<std::vector<float>>& values, std::size_t i) {
  const double mean = sum_of(values, i) / static_cast<double>(values.size());
  double squares = 0;
  for (const auto& of_rank : values) squares += (of_rank[i] - mean) * (of_rank[i] - mean);
  return std::sqrt(squares);
}

TEST(GossipRates, RepeatedMixingContractsAsTheSecondEigenvalueSays) {
  constexpr int rounds = 6;
  for (const std::uint32_t size : group_sizes) {
    if (size == 1) continue;
    for (const Graph& graph : graphs_of(size)) {
      SCOPED_TRACE(std::to_string(size) + " ranks, degree " + std::to_string(graph.degree(0)));
      const Slowest slow = slowest(graph);
      const bool complete = graph.degree(0) + 1 == size;
      EXPECT_EQ(slow.rate == 0, complete) << slow.rate;
      EXPECT_LT(slow.rate, 1 - 1e-3);
      // The first element is as slow as can be, the others are anything.
      auto values = noise_of_ranks<float>(size, 9);
      for (std::uint32_t rank = 0; rank < size && !complete; ++rank) {
        values[rank][0] = 5 + static_cast<float>(slow.values[rank] / length(slow.values));
      }
      const auto before = values;
      const auto ranks = at_once(size, Loss::ends_the_group);
      for (int round = 1; round <= rounds; ++round) {
        mix_once(*ranks, graph, Element::float32, values);
        const double factor = std::pow(slow.rate, round);
        EXPECT_NEAR(deviation(values, 0), complete ? 0 : factor, 1e-5);
        for (std::size_t i = 1; i < 9; ++i) EXPECT_LE(deviation(values, i), factor * deviation(before, i) + 1e-5);
      }
    }
  }
}

/// The simulated time of an operation on every rank.
template <class Operation>
double time_of(const Graph& graph, NetworkModel model, const Operation& operation) {
  model.carries_data = false;
  InProcessRanks ranks(graph.ranks(), model, Loss::ends_the_group);
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    Gossip gossip(group, graph);
    co_return co_await operation(gossip);
  }));
  return ranks.network().now();
}

/// Compares with the simulated time of an operation on messages of a few bytes where only latency counts, and of many
/// bytes where only that does which one port moves or one rank combines.
template <class Operation>
void takes(const Graph& graph, const Cost& cost, const Operation& few_bytes, const Operation& many_bytes) {
  EXPECT_EQ(time_of(graph, {.latency_seconds = 1}, few_bytes), cost.alpha);
  const double transfer = time_of(graph, {.bytes_per_second = 1e9}, many_bytes);
  EXPECT_GT(transfer, 0.99 * cost.beta / 1e9);
  EXPECT_LT(transfer, 1.3 * cost.beta / 1e9);
  EXPECT_NEAR(time_of(graph, {.combine_seconds_per_byte = 1e-9}, many_bytes), cost.gamma / 1e9, 1e-6);
}

TEST(GossipCosts, AreAsStated) {
  constexpr std::size_t few = 4;
  constexpr std::size_t many = 4'000'000;
  std::vector<float> values(many / sizeof(float));
  const auto mix = [&](std::size_t bytes) {
    const Buffer buffer{std::as_writable_bytes(std::span(values)).first(bytes)};
    return [buffer](Gossip& gossip) { return gossip.mix(buffer, Subject()); };
  };
  const Bytes payload(many);
  const auto gather = [&](std::size_t bytes) {
    return [own = BytesView(payload).first(bytes)](Gossip& gossip) -> Task<> {
      Gathered gathered{.payloads = {}, .bytes_max = many};
      co_return co_await gossip.gather(own, gathered, Subject());
    };
  };
  for (const std::uint32_t size : {2U, 5U, 9U, 16U, 64U}) {
    for (const Graph& graph : graphs_of(size)) {
      const std::uint32_t degree = graph.degree(0);
      SCOPED_TRACE(std::to_string(size) + " ranks, degree " + std::to_string(degree));
      takes(graph, Gossip::mix_cost(degree, many), mix(few), mix(many));
      takes(graph, Gossip::gather_cost(degree, many), gather(few), gather(many));
    }
  }
}

}  // namespace
}  // namespace weir::collectives
