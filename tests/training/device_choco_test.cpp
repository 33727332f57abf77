// Gossip between models of which some are on a device: what they send and keep has the processor's bits, and nothing
// but what is sent crosses. On the emulated device, which does no work before somebody needs it and counts what
// crosses.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "compressors/memories/misfit.hpp"
#include "exchange_cases.hpp"
#include "mode_runs.hpp"
#include "tests/compressors/tensors.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "training/gossip/choco.hpp"

namespace weir::training {
namespace {

using compressors::builtin;
using compressors::test::heavy_tailed;
using compressors::test::same_bits;
using nlohmann::json;

const at::Device gpu(at::DeviceType::PrivateUse1, 0);
const at::Device cpu(at::kCPU);

struct Case {
  std::string compressor;
  json params;

  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.compressor << of.params.dump(); }
};

/// All that the mode accepts, at the defaults and with the parameters that other tests use, but for singular vectors,
/// of which a device finds others.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& entry : builtin().compressors()) {
    auto sets = testing::compressor_params().at(entry.name);
    sets.insert(sets.begin(), json::object());
    for (const auto& params : sets) {
      const auto made = builtin().make_compressor(entry.name, params).value();
      const auto traits = made->traits();
      if (traits.lossless || !traits.exact_on_devices || compressors::no_neighbours(*made)) continue;
      all.push_back({entry.name, params});
    }
  }
  return all;
}

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Ranks in one thread, each of which is a neighbour of all others.
class Ranks {
 public:
  Ranks(const Case& of, const Shapes& shapes, const std::vector<at::Device>& devices) : values_(devices.size()) {
    const auto ranks = static_cast<std::uint32_t>(devices.size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::uint32_t> coded;
      for (const auto& shape : shapes) {
        coded.push_back(static_cast<std::uint32_t>(coded.size()));
        const auto options = at::TensorOptions(at::kFloat).device(devices[rank]);
        values_[rank].push_back({"tensor" + std::to_string(coded.size()), at::zeros(shape, options)});
      }
      std::vector<std::uint32_t> neighbours;
      for (std::uint32_t other = 0; other < ranks; ++other) {
        if (other != rank) neighbours.push_back(other);
      }
      const std::vector<float> weights(neighbours.size(), 1 / static_cast<float>(ranks));
      compressors_.push_back(builtin().make_compressor(of.compressor, of.params).value());
      chocos_.push_back(std::make_unique<Choco>(
          values_[rank], coded, std::vector<double>(shapes.size(), 0.3), *compressors_.back(),
          Choco::Options{.seed = 5, .rank = rank, .neighbours = neighbours, .weights = weights}));
    }
  }

  void step(std::uint64_t number) {
    const Step step{.number = number, .epoch = static_cast<double>(number)};
    const std::size_t tensors = values_.front().size();
    payloads.assign(values_.size(), {});
    std::vector<std::vector<std::size_t>> ends(values_.size());
    down_to_encode = down_to_take = up_to_take = 0;
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      train(rank, number);
      const auto down = emulator::bytes_to_host();
      chocos_[rank]->encode(step, 0, tensors, payloads[rank], ends[rank]).value();
      down_to_encode += emulator::bytes_to_host() - down;
    }
    const auto down = emulator::bytes_to_host();
    const auto up = emulator::bytes_to_device();
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      std::vector<Bytes> received;
      for (std::size_t other = 0; other < values_.size(); ++other) {
        if (other != rank) received.push_back(payloads[other]);
      }
      chocos_[rank]->take(step, 0, tensors, payloads[rank], ends[rank], received).value();
    }
    down_to_take = emulator::bytes_to_host() - down;
    up_to_take = emulator::bytes_to_device() - up;
  }

  std::vector<NamedTensor> kept(std::size_t rank) const { return chocos_[rank]->save(); }
  const std::vector<NamedTensor>& values(std::size_t rank) const { return values_[rank]; }

  // Of the last step:
  std::vector<Bytes> payloads;
  std::uint64_t down_to_encode = 0;
  std::uint64_t down_to_take = 0;
  std::uint64_t up_to_take = 0;

 private:
  /// In place of an optimizer. The values come up to a device as late as they may.
  void train(std::size_t rank, std::uint64_t number) {
    for (std::size_t t = 0; t < values_[rank].size(); ++t) {
      at::Tensor value = values_[rank][t].tensor;
      const at::Tensor change = heavy_tailed(value.numel(), 100 * number + 10 * rank + t).view(value.sizes());
      value.copy_(value.to(cpu) + change, /*non_blocking=*/true);
    }
  }

  std::vector<std::vector<NamedTensor>> values_;
  std::vector<std::unique_ptr<compressors::Compressor>> compressors_;
  std::vector<std::unique_ptr<Choco>> chocos_;
};

void expect_same(const std::vector<NamedTensor>& one, const std::vector<NamedTensor>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].name, other[i].name);
    EXPECT_TRUE(same_bits(one[i].tensor.to(cpu), other[i].tensor.to(cpu))) << one[i].name;
  }
}

class GossipOnADevice : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, GossipOnADevice, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.compressor + "_" + std::to_string(info.index); });

/// The first steps of compressors with a warm-up go dense.
TEST_P(GossipOnADevice, SendsAndKeepsTheProcessorsBits) {
  const Shapes shapes{{40, 30}, {5000}, {30, 4, 3}};
  Ranks here(GetParam(), shapes, {cpu, cpu, cpu});
  Ranks mixed(GetParam(), shapes, {cpu, gpu, gpu});
  for (std::uint64_t step = 0; step < 5; ++step) {
    SCOPED_TRACE(step);
    here.step(step);
    mixed.step(step);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      EXPECT_TRUE(std::ranges::equal(mixed.payloads[rank], here.payloads[rank]));
      expect_same(mixed.kept(rank), here.kept(rank));
      expect_same(mixed.values(rank), here.values(rank));
    }
  }
  EXPECT_FALSE(mixed.kept(1).front().tensor.is_cpu()) << "an estimate is not where the model is";
}

/// What crosses in a step of two ranks, as shares of their tensors' bytes.
struct Crossing {
  std::string compressor;
  json params = json::object();
  double down_max = 0.2;
  double up_max = 0.2;  ///< of what this rank and its neighbour have sent

  friend void PrintTo(const Crossing& of, std::ostream* out) { *out << of.compressor; }
};

class CrossingOfGossip : public ::testing::TestWithParam<Crossing> {};
INSTANTIATE_TEST_SUITE_P(All, CrossingOfGossip,
                         ::testing::Values(Crossing{"topk", {{"ratio", 0.01}}}, Crossing{"randomk", {{"ratio", 0.01}}},
                                           Crossing{"sketchml", {{"ratio", 0.01}}}, Crossing{"onebit"},
                                           Crossing{"int8", json::object(), 0.3, 0.8},
                                           Crossing{"bf16", json::object(), 0.55, 1.6}),
                         [](const auto& info) { return info.param.compressor; });

TEST_P(CrossingOfGossip, IsWhatIsSentAndNotTheDifference) {
  const Shapes shapes{{150, 200}, {60, 100}};
  constexpr double dense_bytes = 2.0 * 4 * (150 * 200 + 60 * 100);
  Ranks ranks({GetParam().compressor, GetParam().params}, shapes, {gpu, gpu});
  for (std::uint64_t step = 0; step < 3; ++step) {
    ranks.step(step);
    EXPECT_LT(static_cast<double>(ranks.down_to_encode), GetParam().down_max * dense_bytes);
    EXPECT_LT(static_cast<double>(ranks.up_to_take), GetParam().up_max * dense_bytes);
    EXPECT_LT(static_cast<double>(ranks.down_to_take), 0.005 * dense_bytes);
  }
}

TEST(Gossip, BetweenModelsOnADeviceAndOnTheProcessorComesToTheSame) {
  for (const std::string compressor : {"topk", "int8", "bf16"}) {
    auto spec = testing::small_job(compressor);
    spec.training.mode = {"gossip", json::object()};
    if (compressor != "topk") spec.compression.compressor.params = json::object();
    const auto mixed = testing::train(spec, 3, {.devices = {cpu, gpu, gpu}});
    const auto here = testing::train(spec, 3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(mixed.results[rank]) << mixed.results[rank].error().message();
      EXPECT_TRUE(std::ranges::equal(mixed.shares[rank].bytes(), here.shares[rank].bytes()))
          << compressor << ", the checkpoint of rank " << rank;
    }
  }
}

}  // namespace
}  // namespace weir::training
