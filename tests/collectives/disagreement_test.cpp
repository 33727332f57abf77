// One rank does something else than all others.

#include <algorithm>
#include <regex>

#include "collectives/subgroup.hpp"
#include "collectives/topologies/tree.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/operations.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

constexpr Subject usual_subject{.version = 5, .bucket = 3, .part = 0};
constexpr std::size_t usual_bytes = 400;

/// What the deviant does.
struct Deviation {
  std::string name;
  NamedOperation operation;
  Subject about = usual_subject;
  std::size_t bytes = usual_bytes;
};

bool takes_numbers(const NamedOperation& operation) {
  return operation.name == "all_reduce" || operation.name == "reduce_scatter" || operation.name == "broadcast" ||
         operation.name == "mix";
}

/// All that another rank can do instead of `usual`.
std::vector<Deviation> deviations_from(const Arrangement& arrangement, const NamedOperation& usual) {
  std::vector<Deviation> all{
      {"another bucket", usual, {.version = 5, .bucket = 4, .part = 0}},
      {"another version", usual, {.version = 6, .bucket = 3, .part = 0}},
      {"payloads of another part", usual, {.version = 5, .bucket = 3, .part = 7}},
  };
  if (takes_numbers(usual)) {
    for (const std::size_t bytes : {usual_bytes - 4, usual_bytes + 4, usual_bytes * 2, std::size_t{0}}) {
      all.push_back({std::to_string(bytes) + " bytes", usual, usual_subject, bytes});
    }
  }
  for (const NamedOperation& other : arrangement.operations) {
    if (other.name != usual.name) all.push_back({other.name, other});
  }
  for (const Arrangement& other : all_arrangements()) {
    if (other.name == arrangement.name) continue;
    for (const NamedOperation& operation : other.operations) {
      if (operation.name == usual.name) all.push_back({operation.name + " over " + other.name, operation});
    }
  }
  return all;
}

/// What the ranks end with, when `deviant` does something else than the others. Some can be done before they hear of
/// it, like the root of a broadcast: these end with what they hear in their next operation.
std::vector<Result<void>> run(Ranks& ranks, const NamedOperation& usual, const Deviation& deviation,
                              std::uint32_t deviant) {
  std::vector<Exchanged> exchanged;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    exchanged.emplace_back(rank == deviant ? deviation.bytes : usual_bytes);
  }
  auto results = ranks.run([&](Communicator& group) {
    Exchanged& own = exchanged[group.rank()];
    return group.rank() == deviant ? deviation.operation.run(group, own, deviation.about)
                                   : usual.run(group, own, usual_subject);
  });
  const auto later = ranks.run([&](Communicator& group) {
    return usual.run(group, exchanged[group.rank()], {.version = 8, .bucket = 3, .part = 0});
  });
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank]) results[rank] = later[rank];
  }
  return results;
}

void expect_named(const std::vector<Result<void>>& results, std::uint32_t deviant) {
  bool named = false;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    ASSERT_FALSE(results[rank]) << "rank " << rank;
    const Error& error = results[rank].error();
    EXPECT_EQ(error.code, Errc::malformed) << "rank " << rank << ": " << error.message();
    EXPECT_TRUE(std::regex_search(error.context, std::regex("rank \\d.* bucket \\d of version \\d")))
        << "rank " << rank << ": " << error.message();
    named |= error.context.find("rank " + std::to_string(deviant)) != std::string::npos;
  }
  EXPECT_TRUE(named) << results[0].error().message();
}

/// Whether two arrangements are graphs, and the same one for so many ranks.
bool same_graph(const std::string& one, const std::string& other, std::uint32_t size) {
  const auto edges_of = [&](const std::string& name) -> std::uint64_t {
    for (const GraphType& type : graphs()) {
      if (name.ends_with("gossip_" + std::string(type.name))) return graph_of(type, size).fingerprint();
    }
    return 0;
  };
  return edges_of(one) != 0 && edges_of(one) == edges_of(other);
}

class Disagreements : public ::testing::TestWithParam<Arrangement> {
 protected:
  void deviate(std::uint32_t size, const std::function<std::unique_ptr<Ranks>()>& make) const {
    if (GetParam().group_size == GroupSize::power_of_two && !std::has_single_bit(size)) return;
    for (const NamedOperation& usual : GetParam().operations) {
      for (const Deviation& deviation : deviations_from(GetParam(), usual)) {
        const bool powers_only = deviation.name.ends_with("butterfly") || deviation.name.ends_with("multi_hop");
        if (powers_only && !std::has_single_bit(size)) continue;
        if (same_graph(GetParam().name, deviation.name, size)) continue;
        for (std::uint32_t deviant = 0; deviant < size; ++deviant) {
          SCOPED_TRACE(usual.name + " between " + std::to_string(size) + ", rank " + std::to_string(deviant) + ": " +
                       deviation.name);
          expect_named(run(*make(), usual, deviation, deviant), deviant);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Catalog, Disagreements, ::testing::ValuesIn(all_arrangements()), arrangement_name);

TEST_P(Disagreements, AreNamedOnEveryRank) {
  for (const std::uint32_t size : {2U, 3U, 4U, 5U}) {
    deviate(size, [&] { return at_once(size, Loss::ends_the_group); });
    deviate(size, [&] { return delayed(size, Loss::ends_the_group); });
  }
}

TEST_P(Disagreements, APayloadAboveTheLimitEndsEveryRank) {
  for (const NamedOperation& operation : GetParam().operations) {
    if (operation.name != "all_gather" && operation.name != "gather") continue;
    for (const std::uint32_t size : {2U, 4U}) {
      for (const bool own_limit : {false, true}) {
        SCOPED_TRACE(operation.name + " between " + std::to_string(size));
        const auto ranks = at_once(size, Loss::ends_the_group);
        std::vector<Exchanged> exchanged(size, Exchanged(usual_bytes));
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          if (own_limit == (rank == 1)) exchanged[rank].gathered.bytes_max = usual_bytes - 1;
        }
        const auto results = ranks->run(
            [&](Communicator& group) { return operation.run(group, exchanged[group.rank()], usual_subject); });
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          ASSERT_FALSE(results[rank]);
          EXPECT_NE(results[rank].error().context.find("bucket 3 of version 5"), std::string::npos)
              << results[rank].error().message();
          const bool own_fault = own_limit == (rank == 1);
          EXPECT_EQ(results[rank].error().code, own_fault ? Errc::invalid_argument : Errc::malformed)
              << results[rank].error().message();
        }
      }
    }
  }
}

TEST_P(Disagreements, ValuesOnAGpuEndEveryRank) {
  for (const NamedOperation& operation : GetParam().operations) {
    const bool says_where =
        takes_numbers(operation) || operation.name == "all_gather" || operation.name == "all_to_all";
    if (!says_where || operation.name == "mix") continue;
    SCOPED_TRACE(operation.name);
    const auto ranks = at_once(2, Loss::ends_the_group);
    std::vector<Exchanged> exchanged(2, Exchanged(usual_bytes));
    exchanged[1].device = {.gpu = 3};
    const auto results =
        ranks->run([&](Communicator& group) { return operation.run(group, exchanged[group.rank()], usual_subject); });
    for (const auto& result : results) ASSERT_FALSE(result);
    EXPECT_EQ(results[1].error().code, Errc::unsupported) << results[1].error().message();
    EXPECT_NE(results[1].error().context.find("GPU 3"), std::string::npos) << results[1].error().message();
    EXPECT_NE(results[0].error().context.find("rank 1"), std::string::npos) << results[0].error().message();
  }
}

/// The same over every transport, for one number of ranks and some of the deviations.
class DisagreementsOver : public ::testing::TestWithParam<std::tuple<Arrangement, Transport>> {};
INSTANTIATE_TEST_SUITE_P(Catalog, DisagreementsOver,
                         ::testing::Combine(::testing::ValuesIn(all_arrangements()), ::testing::ValuesIn(transports)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_over_" + std::get<1>(info.param).name;
                         });

TEST_P(DisagreementsOver, AreNamedOnEveryRank) {
  const auto& [arrangement, transport] = GetParam();
  const NamedOperation& usual = arrangement.operations.front();
  for (const Deviation& deviation : deviations_from(arrangement, usual)) {
    const bool another_topology = deviation.name.find(" over ") != std::string::npos;
    if (another_topology && deviation.name != usual.name + " over parameter_server_1") continue;
    SCOPED_TRACE(deviation.name);
    expect_named(run(*transport.make(4, Loss::ends_the_group), usual, deviation, 2), 2);
  }
}

/// Leaders of two hosts of two ranks each.
class DisagreementsOfLeaders : public ::testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, DisagreementsOfLeaders, ::testing::ValuesIn(transports), transport_name);

/// What two leaders do between what all ranks do with their neighbours.
Task<> between_leaders(Communicator& group, std::function<Task<>(Communicator& leaders)> operation) {
  const bool first = group.rank() < 2;
  SubGroup neighbours(group, first ? std::vector<std::uint32_t>{0, 1} : std::vector<std::uint32_t>{2, 3});
  float value = 1;
  const Buffer values{std::as_writable_bytes(std::span(&value, 1))};
  Tree within(neighbours);
  if (auto done = co_await within.combine_to(values, 0, ReduceOp::sum, usual_subject); !done) co_return done.error();
  if (neighbours.rank() == 0) {
    SubGroup leaders(group, {0, 2});
    if (auto done = co_await operation(leaders); !done) co_return done.error();
  }
  Subject down = usual_subject;
  down.part = 1000;
  co_return co_await within.broadcast(values, 0, down);
}

TEST_P(DisagreementsOfLeaders, AreNamedOnEveryRank) {
  struct Way {
    const char* name;
    const char* topology = "ring";
    ReduceOp op = ReduceOp::sum;
    Element element = Element::float32;
    Subject about = usual_subject;
  };
  const Way usual{.name = "usual"};
  const Way ways[] = {{.name = "another operator", .op = ReduceOp::max},
                      {.name = "another element", .element = Element::float16},
                      {.name = "another topology", .topology = "two_hop"},
                      {.name = "another bucket", .about = {.version = 5, .bucket = 4, .part = 0}}};
  for (const Way& other : ways) {
    for (const std::uint32_t deviant : {0U, 2U}) {
      SCOPED_TRACE(other.name + (" of rank " + std::to_string(deviant)));
      const auto ranks = GetParam().make(4, Loss::ends_the_group);
      const auto body = [&](const Way& otherwise) {
        return ranks->run([&](Communicator& group) {
          return between_leaders(group, [&](Communicator& leaders) -> Task<> {
            const Way& way = group.rank() == deviant ? otherwise : usual;
            std::vector<float> values(100, 1.0F);
            const auto collective = find_topology(way.topology)->make(leaders);
            co_return co_await collective->all_reduce(buffer_of(values, way.element), way.op, way.about);
          });
        });
      };
      expect_success(body(usual));
      const auto results = body(other);
      expect_named(results, 2);
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(results[rank].error().context.find("rank 1"), std::string::npos)
            << "rank 1 of the leaders is rank 2: " << results[rank].error().message();
      }
    }
  }
}

}  // namespace
}  // namespace weir::collectives
