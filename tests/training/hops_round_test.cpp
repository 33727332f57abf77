// What a round by hops sends, and how far what it comes to is from the mean of the gradients.

#include "training/exchange/hops_round.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/errc.hpp"
#include "collectives/transports/in_process.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "tests/compressors/tensors.hpp"

namespace weir::training::testing {
namespace {

using collectives::Task;
using compressors::Round;
using compressors::test::gaussian;
using ::testing::HasSubstr;

/// In which (step, tensor, rank) something was encoded.
using Draw = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;

/// QSGD with five bits for each entry, its sign among them, and a norm for each bucket, that notes what it draws random
/// numbers for.
class Noting final : public compressors::Compressor {
 public:
  Noting(std::vector<Draw>& draws, std::int64_t bucket)
      : draws_(draws), qsgd_(compressors::builtin().make_compressor("qsgd", {{"bucket", bucket}}).value()) {}
  std::string_view name() const override { return "noting"; }
  compressors::Traits traits() const override { return qsgd_->traits(); }
  double error_bound(std::uint64_t entries, const Round& round) const override {
    return qsgd_->error_bound(entries, round);
  }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override {
    draws_.emplace_back(round.step, round.tensor, round.rank);
    return qsgd_->encode(gradient, round, out);
  }
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override {
    return qsgd_->decode_add(payload, round, weight, sum);
  }

 private:
  std::vector<Draw>& draws_;
  const std::unique_ptr<compressors::Compressor> qsgd_;
};

const std::vector<std::vector<std::int64_t>> shapes = {{48, 100}, {3, 70}, {5, 6}};

/// A rank of an exchange of one bucket.
class Rank {
 public:
  Rank(std::unique_ptr<collectives::Communicator> group, const char* memory, std::uint64_t seed, std::int64_t bucket)
      : group_(std::move(group)), topology_(*group_) {
    static const nlohmann::json none;
    compression =
        compressors::builtin()
            .make({.compressor = "qsgd", .params = none, .memory = memory, .memory_params = none, .setting = {}})
            .value();
    compression.compressor = std::make_unique<Noting>(draws, bucket);
    for (const auto& shape : shapes) {
      bucket_.parameters.push_back(static_cast<std::uint32_t>(parameters_.size()));
      parameters_.push_back({"p" + std::to_string(parameters_.size()), at::zeros(shape)});
      means.push_back({.tensor = at::zeros(shape), .sparse = false, .positions = {}});
    }
    setting_ = std::make_unique<RoundSetting>(RoundSetting{.parameters = parameters_,
                                                           .values = {},
                                                           .means = means,
                                                           .compression = compression,
                                                           .gathered_mean = gathered_mean_,
                                                           .seed = seed,
                                                           .ranks = group_->size(),
                                                           .rank = group_->rank(),
                                                           .world = group_->size(),
                                                           .owners = group_->size(),
                                                           .hops = true});
    round = std::make_unique<HopsRound>(*setting_, bucket_, static_cast<std::uint32_t>(shapes.size()));
  }

  /// Changes what comes from a partner before it is read.
  std::function<void(std::uint32_t hop, Bytes& incoming)> harm_hop;
  /// The same of what comes from the owners, by owner.
  std::function<void(std::vector<Bytes>& gathered)> harm_means;

  Task<> step(std::uint64_t number, std::vector<at::Tensor> gradients) {
    round->begin({.number = number}, bucket_.parameters, /*there=*/false);
    if (auto done = round->encode(0, gradients); !done) co_return done.error();
    collectives::Subject about{.version = number, .bucket = 0, .part = 0};
    for (std::uint32_t hop = 0; hop < round->hops(); ++hop, ++about.part) {
      if (hop > 0) {
        if (auto done = round->encode_hop(hop); !done) co_return done.error();
      }
      payload_bytes += round->hop_payload().size();
      auto swapping = topology_.swap(round->hop_payload(), round->partner(hop), round->incoming(), about);
      if (auto done = co_await swapping; !done) co_return done.error();
      if (harm_hop) harm_hop(hop, round->incoming().payloads[round->partner(hop)]);
      if (auto done = round->add_hop(hop); !done) co_return done.error();
    }
    if (auto done = round->encode_combined(); !done) co_return done.error();
    payload_bytes += round->combined().size();
    about.part = 1 << 15;
    auto back = topology_.from_owners(round->combined(), round->gathered(), about);
    if (auto done = co_await back; !done) co_return done.error();
    if (harm_means) harm_means(round->gathered().payloads);
    co_return round->decode(0);
  }

  std::uint64_t payload_bytes = 0;  ///< that it has encoded
  std::vector<Draw> draws;
  compressors::Compression compression;
  std::vector<Mean> means;
  std::unique_ptr<HopsRound> round;
  collectives::Traffic traffic() const { return group_->traffic(); }

 private:
  std::unique_ptr<collectives::Communicator> group_;
  collectives::MultiHop topology_;
  std::vector<NamedTensor> parameters_;
  GatheredMean gathered_mean_;
  Bucket bucket_{.parameters = {}, .coded = true};
  std::unique_ptr<RoundSetting> setting_;
};

/// By rank, then by parameter.
using Gradients = std::vector<std::vector<at::Tensor>>;

class Group {
  std::unique_ptr<collectives::InProcessNetwork> network_;  // the ranks' messages end with them, before it

 public:
  std::vector<std::unique_ptr<Rank>> ranks;

  explicit Group(std::uint32_t size, const char* memory = "none", std::uint64_t seed = 5, std::int64_t bucket = 512)
      : network_(collectives::InProcessNetwork::make(size, 1, {.latency_seconds = 1})) {
    for (std::uint32_t r = 0; r < size; ++r) {
      ranks.push_back(std::make_unique<Rank>(network_->communicator(r), memory, seed, bucket));
    }
  }

  /// The results of a step, by rank; of a rank that waits for ever: none.
  std::vector<std::optional<Result<void>>> results(std::uint64_t number, const Gradients& gradients) {
    std::vector<Task<>> tasks;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) tasks.push_back(ranks[r]->step(number, gradients[r]));
    for (auto& task : tasks) task.start();
    network_->run_while_busy();
    std::vector<std::optional<Result<void>>> found;
    for (auto& task : tasks) found.push_back(task.done() ? std::optional(task.take_result()) : std::nullopt);
    return found;
  }

  /// All ranks end with the same bits.
  void step(std::uint64_t number, const Gradients& gradients) {
    for (auto& result : results(number, gradients)) result.value().value();
    for (const auto& rank : ranks) {
      for (std::size_t p = 0; p < shapes.size(); ++p) {
        ASSERT_TRUE(rank->means[p].tensor.equal(ranks[0]->means[p].tensor));
      }
    }
  }

  const at::Tensor& mean(std::size_t parameter) const { return ranks[0]->means[parameter].tensor; }
  double now() const { return network_->now(); }
};

Gradients gradients_of(std::uint32_t ranks, std::uint64_t seed) {
  Gradients all(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      const auto entries = c10::multiply_integers(shapes[p]);
      all[r].push_back((gaussian(entries, (seed * 100 + r) * 10 + p) + 0.5).view(shapes[p]));
    }
  }
  return all;
}

at::Tensor mean_of(const Gradients& gradients, std::size_t parameter) {
  at::Tensor sum = at::zeros(shapes[parameter]);
  for (const auto& of_rank : gradients) sum += of_rank[parameter];
  return sum / static_cast<double>(gradients.size());
}

double squares_of(const at::Tensor& tensor) { return tensor.to(at::kDouble).square().sum().item<double>(); }

TEST(HopsRound, TakesTwoMessagesForEachDoublingOfTheRanks) {
  for (const auto& [ranks, latencies] : std::map<std::uint32_t, double>{{1, 0}, {2, 2}, {8, 6}, {64, 12}}) {
    Group group(ranks);
    const auto gradients = gradients_of(ranks, 1);
    group.step(0, gradients);
    const double before = group.now();
    group.step(1, gradients);
    EXPECT_DOUBLE_EQ(group.now() - before, latencies) << ranks << " ranks";
  }
}

TEST(HopsRound, SendsAboutTwoPayloadsHoweverManyRanks) {
  Bytes whole;  // all gradients as one rank would encode them
  for (const auto& shape : shapes) {
    compressors::builtin().make_compressor("qsgd", nullptr).value()->encode(at::ones(shape), {}, whole).value();
  }
  for (const std::uint32_t ranks : {8U, 16U}) {
    Group group(ranks);
    group.step(0, gradients_of(ranks, 2));
    for (const auto& rank : group.ranks) {
      // Every entry is encoded once, in pieces with a head each. The rank forwards what it gets of others.
      EXPECT_LT(static_cast<double>(rank->payload_bytes), 1.3 * static_cast<double>(whole.size()));
      EXPECT_GT(static_cast<double>(rank->payload_bytes), static_cast<double>(whole.size()));
      EXPECT_LT(static_cast<double>(rank->traffic().sent_bytes), 3.0 * static_cast<double>(whole.size()));
    }
  }
}

// A sum of 2^h ranks' parts of a mean over P ranks has, squared, at most 2^h / P^2 of their squares, and P / 2^h of
// such sums hold all ranks' parts. So encoding adds at most b 2^h / P times their mean square in hop h, over all hops
// at most b times it, and b times it again on the way back, if what earlier hops have added is encoded, too, (1 + b)
// times as much in each.
TEST(HopsRound, OfUnbiasedPayloadsIsUnbiasedAndNoFurtherFromTheMeanThanStated) {
  const std::vector<std::pair<std::uint32_t, std::int64_t>> cases = {{8, 512}, {16, 512}, {8, 64}, {16, 64}};
  for (const auto& [ranks, bucket] : cases) {
    constexpr int trials = 60;
    const auto gradients = gradients_of(ranks, 3);
    const at::Tensor mean = mean_of(gradients, 0);
    double squares = 0;  // the ranks' mean
    for (const auto& of_rank : gradients) squares += squares_of(of_rank[0]) / ranks;
    std::vector<Draw> none;
    const double b = Noting(none, bucket).error_bound(4800, {});
    ASSERT_LT(b, 1);
    const double bound = 2 * b * std::pow(1 + b, std::log2(ranks)) * squares;
    double error = 0;
    at::Tensor average = at::zeros_like(mean);
    for (int trial = 0; trial < trials; ++trial) {
      Group group(ranks, "none", static_cast<std::uint64_t>(trial), bucket);
      group.step(0, gradients);
      error += squares_of(group.mean(0) - mean) / trials;
      average += group.mean(0) / static_cast<double>(trials);
    }
    EXPECT_LT(error, bound) << ranks << " ranks";
    EXPECT_GT(error, 0);
    EXPECT_LT(squares_of(average - mean), 1.5 * error / trials) << "so that it is the mean that they are around";
    RecordProperty("error_" + std::to_string(ranks) + "_ranks_bucket_" + std::to_string(bucket),
                   std::to_string(std::sqrt(error / squares_of(mean))));
  }
}

TEST(HopsRound, KeepsWhatItLeavesOutSoThatTheMeanOverTimeIsExact) {
  constexpr std::uint32_t ranks = 8;
  for (const char* memory : {"none", "residual"}) {
    Group group(ranks, memory);
    const auto gradients = gradients_of(ranks, 4);
    std::vector<at::Tensor> taken;
    for (const auto& shape : shapes) taken.push_back(at::zeros(shape));
    std::map<std::uint64_t, double> error;  // of the mean over so many steps
    for (std::uint64_t step = 1; step <= 400; ++step) {
      group.step(step, gradients);
      for (std::size_t p = 0; p < shapes.size(); ++p) taken[p] += group.mean(p);
      error[step] = squares_of(taken[0] / static_cast<double>(step) - mean_of(gradients, 0));
    }
    EXPECT_LT(std::sqrt(error[400]), std::sqrt(error[4]) / 50) << memory << ": it goes down with the number of steps";
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      at::Tensor left_out = at::zeros(shapes[p]);
      for (const auto& rank : group.ranks) {
        std::vector<NamedTensor> state;
        rank->round->save(state);
        const auto residual = Owner::residual_in(state, "p" + std::to_string(p), left_out.numel()).value();
        ASSERT_TRUE(residual);
        EXPECT_EQ(residual->first_entry, 0U);
        left_out += residual->values.view(shapes[p]);
        if (auto* unsent = rank->compression.memory->unsent(); unsent != nullptr) {
          EXPECT_EQ(unsent->find({.tensor = static_cast<std::uint32_t>(p)})->count_nonzero().item<std::int64_t>(), 0)
              << "to the memory everything has been sent";
        }
      }
      const at::Tensor given = mean_of(gradients, p) * 400.0;
      EXPECT_TRUE((taken[p] + left_out).allclose(given, 1e-4, 1e-2)) << (taken[p] + left_out - given).abs().max();
    }
  }
}

TEST(HopsRound, EncodesEachPieceOnceOnEachRankWithDrawsOfItsOwn) {
  constexpr std::uint32_t ranks = 8;
  Group group(ranks);
  for (std::uint64_t step = 0; step < 3; ++step) group.step(step, gradients_of(ranks, step));
  std::set<Draw> seen;
  std::size_t encoded = 0;
  for (const auto& rank : group.ranks) {
    seen.insert(rank->draws.begin(), rank->draws.end());
    encoded += rank->draws.size();
    EXPECT_EQ(rank->draws.size(), 3 * rank->round->pieces().size());
  }
  EXPECT_EQ(seen.size(), encoded);
}

/// What a rank says that has been sent something else in its second hop than its partner encoded.
Error said_of(const std::function<void(Bytes&)>& harm) {
  constexpr std::uint32_t ranks = 8;
  Group group(ranks);
  group.ranks[5]->harm_hop = [&](std::uint32_t hop, Bytes& incoming) {
    if (hop == 1) harm(incoming);
  };
  const auto results = group.results(0, gradients_of(ranks, 1));
  return results[5].value().error();
}

TEST(HopsRound, RefusesWhatNoPartnerWouldSend) {
  const std::map<std::string, std::function<void(Bytes&)>> harms = {
      {"nothing", [](Bytes& bytes) { bytes.clear(); }},
      {"too little", [](Bytes& bytes) { bytes.pop_back(); }},
      {"too much", [](Bytes& bytes) { bytes.push_back(std::byte{0}); }},
      {"a wrong length", [](Bytes& bytes) { bytes[0] = std::byte{0xff}; }},
      {"all ones", [](Bytes& bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0xff}); }},
  };
  for (const auto& [what, harm] : harms) {
    const Error error = said_of(harm);
    EXPECT_EQ(error.code, Errc::malformed) << what << ": " << error.message();
    EXPECT_THAT(error.context, HasSubstr("rank 7")) << what;
    if (what == "nothing" || what == "all ones") {
      EXPECT_THAT(error.context, HasSubstr("gradient of p")) << what;
    }
  }
}

TEST(HopsRound, RefusesWhatNoOwnerWouldSend) {
  constexpr std::uint32_t ranks = 4;
  for (const std::uint32_t owner : {0U, 1U, 3U}) {
    Group group(ranks);
    group.ranks[2]->harm_means = [&](std::vector<Bytes>& gathered) { gathered[owner].resize(3); };
    const auto results = group.results(0, gradients_of(ranks, 1));
    const Error error = results[2].value().error();
    EXPECT_EQ(error.code, Errc::malformed) << error.message();
    EXPECT_THAT(error.context, HasSubstr("rank " + std::to_string(owner)));
    EXPECT_THAT(error.context, HasSubstr("gradient of p"));
  }
}

TEST(HopsRound, LeavesToTheMemoryWhatItHasLeftOut) {
  constexpr std::uint32_t ranks = 4;
  Group group(ranks, "residual");
  group.step(0, gradients_of(ranks, 1));
  for (const auto& rank : group.ranks) {
    std::vector<NamedTensor> before;
    rank->round->save(before);
    const at::Tensor residual = before[0].tensor.clone();
    ASSERT_GT(residual.abs().max().item<float>(), 0);
    rank->round->leave({.number = 1}, std::array{0U});
    EXPECT_TRUE(rank->compression.memory->unsent()->find({.tensor = 0})->equal(residual * double{ranks}));
    std::vector<NamedTensor> after;
    rank->round->save(after);
    EXPECT_EQ(after[0].tensor.count_nonzero().item<std::int64_t>(), 0);
    const auto other = std::ranges::find(after, "owned.p1", &NamedTensor::name);
    ASSERT_NE(other, after.end());
    EXPECT_GT(other->tensor.count_nonzero().item<std::int64_t>(), 0) << "only p0 travels in another way";
  }
}

TEST(HopsRound, IsForWhatSendsEveryEntryWithABoundedError) {
  const auto reason = [](const char* compressor, const nlohmann::json& params = nullptr) {
    return compressors::no_hops(*compressors::builtin().make_compressor(compressor, params).value()).value_or("");
  };
  for (const char* fitting : {"none", "fp16", "int8", "uint8", "natural", "onebit", "efsignsgd", "qsgd", "powersgd"}) {
    EXPECT_EQ(reason(fitting), "") << fitting;
  }
  for (const char* sparse : {"topk", "dgc", "threshold", "sketchml", "blockk"}) {
    EXPECT_THAT(reason(sparse), HasSubstr("some entries")) << sparse;
  }
  EXPECT_THAT(reason("signsgd"), HasSubstr("sign of a sum of signs"));
  EXPECT_THAT(reason("signum"), HasSubstr("momentum"));
  EXPECT_THAT(reason("demo"), HasSubstr("momentum"));
  EXPECT_THAT(reason("casq"), HasSubstr("several passes"));
  EXPECT_THAT(reason("terngrad"), HasSubstr("several passes"));
  EXPECT_THAT(reason("terngrad", {{"scale", "local"}}), HasSubstr("can be larger than what it encodes"));
  EXPECT_THAT(reason("qsgd", {{"bits", 1}}), HasSubstr("can be larger than what it encodes"));
}

}  // namespace
}  // namespace weir::training::testing
