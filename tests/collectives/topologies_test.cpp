#include <algorithm>
#include <cmath>

#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/multi_hop.hpp"
#include "collectives/topologies/tree.hpp"
#include "tests/collectives/choices.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// Every topology over every transport.
class Topologies : public ::testing::TestWithParam<std::tuple<Choice, Transport>> {
 protected:
  const Choice& choice() const { return std::get<0>(GetParam()); }
  const TopologyType& type() const { return *choice().type; }
  std::unique_ptr<Ranks> make(std::uint32_t size) const {
    return std::get<1>(GetParam()).make(size, Loss::ends_the_group);
  }
  /// The numbers of ranks from 1 to 9 that it works for.
  std::vector<std::uint32_t> sizes() const {
    std::vector<std::uint32_t> fitting;
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      if (type().fits(ranks)) fitting.push_back(ranks);
    }
    return fitting;
  }
};

std::vector<const TopologyType*> all_types() {
  std::vector<const TopologyType*> all;
  for (const TopologyType& type : topologies()) all.push_back(&type);
  return all;
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Choice, Transport>>& info) {
  return std::get<0>(info.param).name() + "_over_" + std::get<1>(info.param).name;
}

/// The ranks of two hosts alternate.
std::unique_ptr<Ranks> interleaved(std::uint32_t size, Loss loss) {
  const NetworkModel model{.latency_seconds = 1e-3, .jitter_seconds = 5e-3, .seed = size, .hosts_in_turn = 2};
  return std::make_unique<InProcessRanks>(size, model, loss);
}
/// As delayed(), with other delays, and time that packing and combining take.
std::unique_ptr<Ranks> delayed_more(std::uint32_t size, Loss loss) {
  const NetworkModel model{.latency_seconds = 1e-4,
                           .jitter_seconds = 1e-2,
                           .bytes_per_second = 1e8,
                           .combine_seconds_per_byte = 1e-8,
                           .packing = {.pack_seconds_per_byte = 2e-10, .unpack_seconds_per_byte = 1e-10},
                           .window_bytes = 300'000,
                           .seed = 11,
                           .ranks_per_host = 3};
  return std::make_unique<InProcessRanks>(size, model, loss);
}

std::vector<Transport> all_transports() {
  std::vector<Transport> all(std::begin(transports), std::end(transports));
  all.push_back({"interleaved", interleaved});
  all.push_back({"delayed_more", delayed_more});
  return all;
}

std::vector<Choice> choices(bool with_servers) {
  std::vector<Choice> all = all_choices();
  std::erase_if(all, [&](const Choice& choice) { return (choice.servers > 0) != with_servers; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Catalog, Topologies,
                         ::testing::Combine(::testing::ValuesIn(choices(false)), ::testing::ValuesIn(all_transports())),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Servers, Topologies,
                         ::testing::Combine(::testing::ValuesIn(choices(true)),
                                            ::testing::Values(Transport{"delayed", delayed}, Transport{"tcp", tcp})),
                         case_name);

// Nothing, fewer than ranks, around the vector block, more than one piece per message, no multiple of anything.
constexpr std::size_t counts[] = {0, 1, 2, 7, 33, 1000, 200'003};

constexpr std::size_t large_count = counts[std::size(counts) - 1];

/// What ranks make of numbers of one type, and how far from it they may come out.
struct Reduction {
  ReduceOp op;
  Element element;
  double tolerance;
};
constexpr Reduction reductions[] = {
    {ReduceOp::sum, Element::float32, 1e-4},   {ReduceOp::mean, Element::float32, 1e-5},
    {ReduceOp::min, Element::float32, 0},      {ReduceOp::max, Element::float32, 0},
    {ReduceOp::majority, Element::float32, 0}, {ReduceOp::sum, Element::float16, 0.1},
    {ReduceOp::max, Element::float16, 0},      {ReduceOp::mean, Element::bfloat16, 0.1}};

/// All-reduces values, and compares with what every element should be and between ranks.
template <class Number>
void reduces(Ranks& ranks, const Choice& choice, const Reduction& reduction, std::size_t count) {
  const auto before = noise_of_ranks<Number>(ranks.size(), count);
  auto values = before;
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    const auto collective = choice.make(group);
    const Subject about{.version = count};
    co_return co_await collective->all_reduce(buffer_of(values[group.rank()], reduction.element), reduction.op, about);
  }));
  expect_each_combined<Number>(values[0], before, 0, reduction.op, reduction.tolerance);
  expect_same_bits(values);
}

// Every operator on every element type: ElementTypes.
TEST_P(Topologies, ReduceAnyLengthToTheSameBitsOnEveryRank) {
  for (const std::uint32_t size : sizes()) {
    const auto ranks = make(size);
    for (std::size_t i = 0; i < std::size(reductions); ++i) {
      for (const std::size_t count : counts) {
        // Large messages take most of the time: each number of ranks has them in one of the reductions.
        if (count == large_count && i != size % std::size(reductions)) continue;
        switch (reductions[i].element) {
          case Element::float32: reduces<float>(*ranks, choice(), reductions[i], count); break;
          case Element::float16: reduces<Half>(*ranks, choice(), reductions[i], count); break;
          case Element::bfloat16: reduces<BFloat16>(*ranks, choice(), reductions[i], count); break;
        }
      }
    }
  }
}

TEST_P(Topologies, ScatterTheReducedChunks) {
  for (const std::uint32_t size : sizes()) {
    const auto ranks = make(size);
    for (const std::size_t count : counts) {
      auto values = noise_of_ranks<float>(size, count);
      std::vector<double> sums(count);
      for (const auto& of_rank : values) {
        for (std::size_t i = 0; i < count; ++i) sums[i] += of_rank[i];
      }
      expect_success(ranks->run([&](Communicator& group) -> Task<> {
        const auto collective = choice().make(group);
        co_return co_await collective->reduce_scatter(buffer_of(values[group.rank()], Element::float32), ReduceOp::sum,
                                                      Subject());
      }));
      for (std::uint32_t r = 0; r < size; ++r) {
        const Buffer own = chunk_of(buffer_of(values[r], Element::float32), size, r);
        const auto* first = reinterpret_cast<const float*>(own.bytes.data());
        const auto begin = static_cast<std::size_t>(first - values[r].data());
        for (std::size_t i = 0; i < own.count(); ++i) ASSERT_NEAR(first[i], sums[begin + i], 1e-4) << "rank " << r;
      }
    }
  }
}

TEST_P(Topologies, GatherRaggedPayloadsInRankOrder) {
  for (const std::uint32_t size : sizes()) {
    const auto ranks = make(size);
    std::vector<Gathered> gathered(size, Gathered{.payloads = {}, .bytes_max = 4'000'000});
    for (const std::size_t scale : {0UL, 1UL, 999UL, 400'000UL, 3UL}) {  // the last: buffers shrink again
      expect_success(ranks->run([&](Communicator& group) -> Task<> {
        const auto collective = choice().make(group);
        const Bytes own = payload_of(group.rank(), group.rank() * scale);
        co_return co_await collective->all_gather(own, gathered[group.rank()], Subject());
      }));
      for (const Gathered& of_rank : gathered) {
        ASSERT_EQ(of_rank.payloads.size(), size);
        for (std::uint32_t r = 0; r < size; ++r)
          ASSERT_EQ(of_rank.payloads[r], payload_of(r, r * scale)) << "from " << r;
      }
    }
  }
}

TEST_P(Topologies, ExchangePayloadsBetweenAll) {
  for (const std::uint32_t size : sizes()) {
    const auto ranks = make(size);
    std::vector<Gathered> incoming(size, Gathered{.payloads = {}, .bytes_max = 4'000'000});
    const auto payload = [&](std::uint32_t source, std::uint32_t to) {
      return payload_of(source * size + to, (source + 2 * to) * 20'001);
    };
    expect_success(ranks->run([&](Communicator& group) -> Task<> {
      const auto collective = choice().make(group);
      std::vector<Bytes> outgoing;
      for (std::uint32_t to = 0; to < size; ++to) outgoing.push_back(payload(group.rank(), to));
      const std::vector<ConstBuffer> views(outgoing.begin(), outgoing.end());
      co_return co_await collective->all_to_all(views, incoming[group.rank()], Subject());
    }));
    for (std::uint32_t to = 0; to < size; ++to) {
      for (std::uint32_t source = 0; source < size; ++source) {
        ASSERT_EQ(incoming[to].payloads[source], payload(source, to)) << source << " to " << to;
      }
    }
  }
}

TEST_P(Topologies, TakePayloadsToOwnersAndBack) {
  const std::uint32_t chosen = choice().servers;
  for (const std::uint32_t size : sizes()) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    const std::uint32_t owners = chosen == 0 ? size : std::min(chosen, size);
    const auto ranks = make(size);
    std::vector<Gathered> incoming(size, Gathered{.payloads = {}, .bytes_max = 4'000'000});
    std::vector<Gathered> gathered = incoming;
    const auto payload = [&](std::uint32_t source, std::uint32_t to) {
      return payload_of(source * size + to, (source + 2 * to) * 20'001);
    };
    expect_success(ranks->run([&](Communicator& group) -> Task<> {
      const auto collective = choice().make(group);
      EXPECT_EQ(collective->owners(), owners);
      std::vector<Bytes> outgoing;
      for (std::uint32_t to = 0; to < size; ++to) {
        outgoing.push_back(to < owners ? payload(group.rank(), to) : Bytes());
      }
      const std::vector<BytesView> views(outgoing.begin(), outgoing.end());
      auto& arrived = incoming[group.rank()];
      if (auto done = co_await collective->to_owners(views, arrived, Subject()); !done) co_return done.error();
      const bool owns = group.rank() < owners;
      const Bytes result = owns ? payload_of(group.rank(), group.rank() * 999) : Bytes();
      co_return co_await collective->from_owners(result, gathered[group.rank()], Subject());
    }));
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      for (std::uint32_t owner = 0; owner < owners; ++owner) {
        ASSERT_EQ(incoming[owner].payloads[rank], payload(rank, owner)) << rank << " to " << owner;
        ASSERT_EQ(gathered[rank].payloads[owner], payload_of(owner, owner * 999)) << owner << " to " << rank;
      }
    }
  }
}

TEST_P(Topologies, SwapPayloadsInPairs) {
  for (const std::uint32_t size : sizes()) {
    if (size % 2 == 1) continue;
    const auto ranks = make(size);
    std::vector<Gathered> incoming(size, Gathered{.payloads = {}, .bytes_max = 4'000'000});
    for (const bool neighbours : {true, false}) {
      const auto partner_of = [&](std::uint32_t rank) { return neighbours ? rank ^ 1 : size - 1 - rank; };
      expect_success(ranks->run([&](Communicator& group) -> Task<> {
        const auto collective = choice().make(group);
        const Bytes own = payload_of(group.rank(), group.rank() * 40'001);
        const std::uint32_t partner = partner_of(group.rank());
        co_return co_await collective->swap(own, partner, incoming[group.rank()], Subject());
      }));
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        const std::uint32_t partner = partner_of(rank);
        ASSERT_EQ(incoming[rank].payloads[partner], payload_of(partner, partner * 40'001)) << partner << " to " << rank;
      }
    }
  }
}

TEST_P(Topologies, SwapNoPayloadAboveTheLimit) {
  const auto ranks = make(2);
  std::vector<Gathered> incoming(2);
  incoming[0].bytes_max = 1000;
  incoming[1].bytes_max = 10'000;
  const auto results = ranks->run([&](Communicator& group) -> Task<> {
    const auto collective = choice().make(group);
    const Bytes own = payload_of(group.rank(), group.rank() == 0 ? 10 : 5000);
    co_return co_await collective->swap(own, 1 - group.rank(), incoming[group.rank()], Subject());
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, Errc::malformed);
  EXPECT_TRUE(incoming[0].payloads[1].empty());
}

TEST(MultiHop, GivesEachShareAwayOnceAndKeepsTheOwn) {
  for (const std::uint32_t ranks : {1U, 2U, 4U, 8U, 256U}) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::uint32_t> given(ranks);
      for (std::uint32_t number = 0; number < MultiHop::hop_count(ranks); ++number) {
        const Hop hop = MultiHop::hop(rank, ranks, number);
        const Hop of_partner = MultiHop::hop(hop.partner, ranks, number);
        ASSERT_EQ(of_partner.partner, rank);
        ASSERT_EQ(of_partner.given, hop.kept);
        ASSERT_EQ(of_partner.kept, hop.given);
        for (std::uint32_t owner = 0; owner < ranks; ++owner) {
          ASSERT_FALSE(hop.gives(owner) && hop.keeps(owner));
          if (hop.gives(owner) || hop.keeps(owner)) {
            ASSERT_EQ(given[owner], 0U) << "it has been given away";
          }
          if (hop.gives(owner)) ++given[owner];
        }
        ASSERT_TRUE(hop.keeps(rank));
      }
      for (std::uint32_t owner = 0; owner < ranks; ++owner) ASSERT_EQ(given[owner], owner == rank ? 0U : 1U);
    }
  }
}

TEST_P(Topologies, CopyOneRanksValuesToAll) {
  for (const std::uint32_t size : sizes()) {
    const auto ranks = make(size);
    for (const std::size_t count : counts) {
      for (const std::uint32_t root : {0U, size - 1, size / 2}) {
        auto values = noise_of_ranks<float>(size, count);
        const auto original = values[root];
        expect_success(ranks->run([&](Communicator& group) -> Task<> {
          const auto collective = choice().make(group);
          co_return co_await collective->broadcast(buffer_of(values[group.rank()], Element::float32), root, Subject());
        }));
        for (std::uint32_t r = 0; r < size; ++r) ASSERT_EQ(values[r], original) << "rank " << r;
      }
    }
  }
}

TEST_P(Topologies, RefuseAPayloadAboveTheLimitBeforeTakingMemoryForIt) {
  const auto ranks = make(2);
  std::vector<Gathered> gathered(2);
  gathered[0].bytes_max = 1000;
  gathered[1].bytes_max = 10'000;
  const auto results = ranks->run([&](Communicator& group) -> Task<> {
    const auto collective = choice().make(group);
    const Bytes own = payload_of(group.rank(), group.rank() == 0 ? 10 : 5000);
    co_return co_await collective->all_gather(own, gathered[group.rank()], Subject());
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, Errc::malformed);
  EXPECT_TRUE(gathered[0].payloads[1].empty());
}

class Costs : public ::testing::TestWithParam<const TopologyType*> {};
INSTANTIATE_TEST_SUITE_P(Catalog, Costs, ::testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(info.param->name); });

using OneOperation = std::function<Task<>(Collective& collective, Communicator& group)>;

/// The simulated time of an operation.
double time_of(const TopologyType& type, std::uint32_t size, NetworkModel model, const OneOperation& operation) {
  model.carries_data = false;
  InProcessRanks ranks(size, model, Loss::ends_the_group);
  expect_success(ranks.run([&](Communicator& group) -> Task<> {
    const auto collective = type.make(group);
    co_return co_await operation(*collective, group);
  }));
  return ranks.network().now();
}

double time_of_all_reduce(const TopologyType& type, std::uint32_t size, std::size_t bytes, const NetworkModel& model) {
  std::vector<float> values(bytes / sizeof(float));
  return time_of(type, size, model, [&](Collective& collective, Communicator&) {
    return collective.all_reduce(buffer_of(values, Element::float32), ReduceOp::sum, Subject());
  });
}

TEST_P(Costs, OfAnAllReduceAreAsStated) {
  const TopologyType& type = *GetParam();
  for (const std::uint32_t size : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 23U, 64U, 1024U}) {
    if (!type.fits(size)) continue;
    constexpr double bytes = 64e6;
    const Cost cost = type.all_reduce_cost(size, bytes);
    EXPECT_NEAR(time_of_all_reduce(type, size, 4, {.latency_seconds = 1}), cost.alpha, 1.01) << size << " ranks";
    const double transfer = time_of_all_reduce(type, size, bytes, {.bytes_per_second = 1e9});
    EXPECT_LT(transfer, 1.3 * cost.beta / 1e9) << size << " ranks";
    EXPECT_GT(transfer, (size == 2 ? 0.49 : 0.95) * cost.beta / 1e9) << size << " ranks";
    const double combining = time_of_all_reduce(type, size, bytes, {.combine_seconds_per_byte = 1e-9});
    EXPECT_LT(combining, 1.3 * cost.gamma / 1e9) << size << " ranks";
    EXPECT_GT(combining, 0.49 * cost.gamma / 1e9) << size << " ranks";
  }
}

/// The simulated time of a sum at one rank, and of copying it to the others.
double time_to_root_and_back(std::uint32_t size, std::size_t bytes, const NetworkModel& model) {
  std::vector<float> values(bytes / sizeof(float));
  return time_of(*find_topology(Tree::name), size, model, [&](Collective&, Communicator& group) -> Task<> {
    Tree tree(group);
    const Buffer buffer = buffer_of(values, Element::float32);
    auto summing = tree.combine_to(buffer, 0, ReduceOp::sum, Subject());
    if (auto done = co_await summing; !done) co_return done.error();
    const Subject back{.version = 1};
    auto copying = tree.broadcast(buffer, 0, back);
    co_return co_await copying;
  });
}

TEST(CostsWithinHosts, OfASumAtOneRankAndBackAreAsStated) {
  for (const std::uint32_t size : {2U, 3U, 4U, 5U, 8U, 16U}) {
    constexpr double bytes = 64e6;
    const Cost cost = Topology::to_root_and_back_cost(size, bytes);
    EXPECT_NEAR(time_to_root_and_back(size, 4, {.latency_seconds = 1}), cost.alpha, 1.01) << size << " ranks";
    const double transfer = time_to_root_and_back(size, bytes, {.bytes_per_second = 1e9});
    EXPECT_NEAR(transfer, cost.beta / 1e9, 0.1 * cost.beta / 1e9) << size << " ranks";
    const double combining = time_to_root_and_back(size, bytes, {.combine_seconds_per_byte = 1e-9});
    EXPECT_NEAR(combining, cost.gamma / 1e9, 0.1 * cost.gamma / 1e9) << size << " ranks";
  }
}

TEST_P(Costs, OfAnAllReduceAreThoseOfFewerBytesWhereASlowLinePacks) {
  const TopologyType& type = *GetParam();
  const std::uint32_t size = type.fits(5) ? 5 : 8;
  constexpr double bytes = 64e6;
  const PackingCosts packing{.pack_seconds_per_byte = 1e-10, .unpack_seconds_per_byte = 1e-10};
  for (const double rate : {1e8, 1e10}) {
    const double plain = time_of_all_reduce(type, size, bytes, {.bytes_per_second = rate});
    const double packed = time_of_all_reduce(type, size, bytes, {.bytes_per_second = rate, .packing = packing});
    const double share = rate == 1e8 ? usual_packed_share(Element::float32) : 1;
    EXPECT_NEAR(packed / plain, share, 0.01) << rate;
  }
}

/// The simulated time of an all-gather of payloads of `bytes` bytes each.
double time_of_all_gather(const TopologyType& type, std::uint32_t size, std::size_t bytes, const NetworkModel& model) {
  std::vector<Gathered> gathered(size, Gathered{.payloads = {}, .bytes_max = bytes});
  return time_of(type, size, model, [&](Collective& collective, Communicator& group) {
    return collective.all_gather(BytesView(group.reserved_addresses(), bytes), gathered[group.rank()], Subject());
  });
}

TEST_P(Costs, OfAnAllGatherAreAsStated) {
  const TopologyType& type = *GetParam();
  for (const std::uint32_t size : {2U, 3U, 8U, 23U, 64U, 1024U}) {
    if (!type.fits(size)) continue;
    constexpr double bytes = 1e6;
    const Cost cost = type.all_gather_cost(size, bytes);
    EXPECT_DOUBLE_EQ(time_of_all_gather(type, size, 4, {.latency_seconds = 1}), cost.alpha) << size << " ranks";
    const double transfer = time_of_all_gather(type, size, bytes, {.bytes_per_second = 1e9});
    EXPECT_LT(transfer, 1.3 * cost.beta / 1e9) << size << " ranks";
    EXPECT_GT(transfer, 0.99 * cost.beta / 1e9) << size << " ranks";
  }
}

/// To the owners and back, payloads of `bytes` bytes for all shares together.
Task<> to_owners_and_back(Collective& collective, Communicator& group, std::size_t bytes,
                          std::vector<Gathered>& gathered) {
  const BytesView share(group.reserved_addresses(), bytes / group.size());
  const std::vector<BytesView> outgoing(group.size(), share);
  Gathered& own = gathered[group.rank()];
  if (auto done = co_await collective.to_owners(outgoing, own, Subject()); !done) co_return done.error();
  const Subject back{.version = 1};
  co_return co_await collective.from_owners(share, own, back);
}

/// The same by hops.
Task<> hops_and_back(Collective& collective, Communicator& group, std::size_t bytes, std::vector<Gathered>& gathered) {
  const std::size_t share = bytes / group.size();
  Gathered& own = gathered[group.rank()];
  for (std::uint32_t number = 0; number < MultiHop::hop_count(group.size()); ++number) {
    const Hop hop = MultiHop::hop(group.rank(), group.size(), number);
    const BytesView given(group.reserved_addresses(), hop.owners * share);
    auto swapping = collective.swap(given, hop.partner, own, Subject{.version = number});
    if (auto done = co_await swapping; !done) co_return done.error();
  }
  const Subject back{.version = 64};
  co_return co_await collective.from_owners(BytesView(group.reserved_addresses(), share), own, back);
}

double time_by_owners(const TopologyType& type, std::uint32_t size, std::size_t bytes, const NetworkModel& model) {
  std::vector<Gathered> gathered(size, Gathered{.payloads = {}, .bytes_max = bytes});
  return time_of(type, size, model, [&](Collective& collective, Communicator& group) {
    return type.gathers == Gathers::partners ? hops_and_back(collective, group, bytes, gathered)
                                             : to_owners_and_back(collective, group, bytes, gathered);
  });
}

std::vector<const TopologyType*> types_by_owners() {
  std::vector<const TopologyType*> all = all_types();
  std::erase_if(all, [](const TopologyType* type) { return !type->by_owners(); });
  return all;
}

class CostsByOwners : public Costs {};
INSTANTIATE_TEST_SUITE_P(Catalog, CostsByOwners, ::testing::ValuesIn(types_by_owners()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(CostsByOwners, AreAsStated) {
  const TopologyType& type = *GetParam();
  for (const std::uint32_t size : {2U, 3U, 8U, 23U, 64U, 1024U}) {
    if (!type.fits(size)) continue;
    constexpr double bytes = 64e6;
    const Cost cost = type.by_owners_cost(size, bytes);
    EXPECT_DOUBLE_EQ(time_by_owners(type, size, size, {.latency_seconds = 1}), cost.alpha) << size << " ranks";
    const double transfer = time_by_owners(type, size, bytes, {.bytes_per_second = 1e9});
    EXPECT_LT(transfer, 1.3 * cost.beta / 1e9) << size << " ranks";
    EXPECT_GT(transfer, 0.95 * cost.beta / 1e9) << size << " ranks";
  }
}

}  // namespace
}  // namespace weir::collectives
