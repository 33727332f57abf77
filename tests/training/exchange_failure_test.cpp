// A compressor fails on one rank, or one does something else than the others: the exchange ends on all, with errors
// that name the rank and the bucket.

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/catalog.hpp"
#include "compressors/memories/no_memory.hpp"
#include "ranks.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training {
namespace {

using compressors::Round;
using testing::run_ranks;

/// What fails on the culprit.
enum class Side : std::uint8_t { encode, decode };

/// What the culprit does that the others do not.
struct Fault {
  std::optional<Side> side = std::nullopt;
  std::uint64_t steps_ahead = 0;
  std::int64_t more_entries = 0;  ///< of the smallest tensor
};

/// Top-k, or another compressor, that fails from step 2 on.
class Failing final : public compressors::Compressor {
 public:
  Failing(std::optional<Side> side, const std::string& compressor)
      : side_(side),
        working_(compressors::builtin()
                     .make_compressor(compressor, compressor == "topk" ? params_of_top_k() : nlohmann::json())
                     .value()) {}

  std::string_view name() const override { return "failing"; }
  compressors::Traits traits() const override { return working_->traits(); }
  double error_bound(std::uint64_t entries, const Round& round) const override {
    return working_->error_bound(entries, round);
  }
  void write_part(compressors::Selection& chosen, std::uint32_t entries, Bytes& out) override {
    working_->write_part(chosen, entries, out);
  }
  Result<void> read_part(BytesView payload, std::uint32_t entries, compressors::Selection& out) override {
    if (side_ == Side::decode) return hostile();  // a part does not tell its step
    return working_->read_part(payload, entries, out);
  }
  Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                            compressors::Selection& out) const override {
    if (fails(Side::decode, round)) return hostile();
    return working_->read_entries(payload, round, entries, out);
  }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override {
    if (fails(Side::encode, round)) return Error{Errc::internal, "no memory to encode in"};
    return working_->encode(gradient, round, out);
  }
  Result<void> do_select(const at::Tensor& gradient, const Round& round, compressors::Selection& chosen) override {
    if (fails(Side::encode, round)) return Error{Errc::internal, "no memory to encode in"};
    return working_->select_entries(gradient, round, chosen);
  }
  Result<void> own_entries(BytesView payload, const Round& round, std::uint64_t entries,
                           compressors::Selection& own) override {
    return working_->read_entries(payload, round, entries, own);
  }
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override {
    if (fails(Side::decode, round)) return hostile();
    return working_->decode_add(payload, round, weight, sum);
  }

 private:
  bool fails(Side side, const Round& round) const { return side_ == side && round.step >= 2; }
  static nlohmann::json params_of_top_k() { return {{"ratio", 0.25}}; }
  static Error hostile() { return {Errc::malformed, "a payload that no compressor wrote"}; }

  const std::optional<Side> side_;
  const std::unique_ptr<compressors::Compressor> working_;
};

using MakeGroup = testing::Group (*)(std::uint32_t size);

testing::Group simulated(std::uint32_t size) {
  return collectives::in_process_group(size, 3, {.latency_seconds = 1e-4, .jitter_seconds = 1e-4, .ranks_per_host = 2});
}
testing::Group over_shared_memory(std::uint32_t size) { return testing::mesh_group(size, true); }

class Failures : public ::testing::TestWithParam<std::tuple<std::string, MakeGroup>> {
 protected:
  static constexpr std::uint32_t size = 4;

  /// Takes steps until they fail; what each rank ends with.
  static std::vector<Error> errors(const std::string& topology, MakeGroup make, std::uint32_t culprit,
                                   const Fault& of_culprit) {
    auto group = make(size);
    std::vector<Error> all(size);
    run_ranks(size, [&](std::uint32_t rank) {
      const Fault fault = rank == culprit ? of_culprit : Fault();
      const float own = 1.0F + static_cast<float>(rank);
      const std::vector<NamedTensor> tensors{{"first", at::full({64, 32}, own)},
                                             {"second", at::full({32, 16}, own)},
                                             {"bias", at::full({16 + fault.more_entries}, own)}};
      compressors::Compression compression{
          .compressor = std::make_unique<Failing>(
              fault.side,
              collectives::find_topology(topology)->gathers == collectives::Gathers::partners ? "int8" : "topk"),
          .memory = std::make_unique<compressors::NoMemory>()};
      Exchange exchange(tensors, std::move(compression), *group[rank],
                        {.bucket_sizes = {.first_bytes = 100, .bytes = 100},
                         .topology = {.name = topology, .servers = topology == "parameter_server" ? 2U : 0U}});
      for (std::uint64_t step = 0; step < 5; ++step) {
        exchange.begin({.number = step + fault.steps_ahead});
        for (const std::uint32_t i : {2U, 1U, 0U}) exchange.give(i, tensors[i].tensor);
        const auto agreed = exchange.finish();
        if (agreed) continue;
        all[rank] = agreed.error();
        break;
      }
    });
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      if (of_culprit.side) {
        EXPECT_EQ(group[rank]->ended_by_another(), rank != culprit) << rank;
      }
      EXPECT_EQ(group[rank]->lost_rank(), std::nullopt) << rank;
    }
    return all;
  }
};

TEST_P(Failures, OfACodecEndTheExchangeOfAllRanksAndNameRankAndBucket) {
  const auto& [topology, make] = GetParam();
  for (const Side side : {Side::encode, Side::decode}) {
    for (const std::uint32_t culprit : {0U, 2U}) {
      // Owners decode what the others do not: both culprits own shares but for two servers.
      if (topology == "parameter_server" && culprit == 2 && side == Side::decode) continue;
      SCOPED_TRACE((side == Side::encode ? "encode on " : "decode on ") + std::to_string(culprit));
      const auto all = errors(topology, make, culprit, {.side = side});
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        const std::string& told = all[rank].context;
        EXPECT_NE(told.find("bucket "), std::string::npos) << "rank " << rank << ": " << all[rank].message();
        if (rank == culprit) {
          EXPECT_EQ(all[rank].code, side == Side::encode ? Errc::internal : Errc::malformed) << all[rank].message();
          EXPECT_NE(told.find(side == Side::encode ? "no memory" : "no compressor"), std::string::npos) << told;
          continue;
        }
        EXPECT_EQ(all[rank].code, Errc::malformed) << "rank " << rank << ": " << all[rank].message();
        const std::string gave_up = "rank " + std::to_string(culprit) + " has given up bucket ";
        EXPECT_NE(told.find(gave_up), std::string::npos) << "rank " << rank << ": " << told;
      }
    }
  }
}

class Disagreements : public Failures {};

TEST_P(Disagreements, EndTheExchangeOfAllRanksAndNameRankAndBucket) {
  const auto& [topology, make] = GetParam();
  for (const Fault& fault : {Fault{.steps_ahead = 1}, Fault{.more_entries = 1}}) {
    for (const std::uint32_t culprit : {0U, 3U}) {
      SCOPED_TRACE("rank " + std::to_string(culprit) + (fault.steps_ahead > 0 ? " is a step ahead" : " has more"));
      const auto all = errors(topology, make, culprit, fault);
      bool named = false;
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        const std::string& told = all[rank].context;
        EXPECT_EQ(all[rank].code, Errc::malformed) << "rank " << rank << ": " << all[rank].message();
        EXPECT_TRUE(std::regex_search(told, std::regex("rank \\d"))) << "rank " << rank << ": " << told;
        EXPECT_TRUE(std::regex_search(told, std::regex("bucket \\d"))) << "rank " << rank << ": " << told;
        named |= told.find("rank " + std::to_string(culprit)) != std::string::npos;
      }
      EXPECT_TRUE(named) << all[culprit].message();
    }
  }
}

const auto every_topology_simulated =
    ::testing::Combine(::testing::Values("ring", "butterfly", "binary_blocks", "tree", "hierarchical", "two_hop",
                                         "multi_hop", "parameter_server", "split_gather"),
                       ::testing::Values(simulated));
INSTANTIATE_TEST_SUITE_P(Simulated, Failures, every_topology_simulated,
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Simulated, Disagreements, every_topology_simulated,
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Tcp, Failures,
                         ::testing::Combine(::testing::Values("ring", "tree", "two_hop", "multi_hop",
                                                              "parameter_server", "split_gather"),
                                            ::testing::Values(testing::tcp_group)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(SharedMemory, Failures,
                         ::testing::Combine(::testing::Values("ring", "split_gather"),
                                            ::testing::Values(over_shared_memory)),
                         [](const auto& info) { return std::get<0>(info.param); });

}  // namespace
}  // namespace weir::training
