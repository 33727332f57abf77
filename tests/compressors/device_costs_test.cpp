// What coding on a device costs beside the kernels: bytes that come down, and how often a thread waits. On the emulated
// device, which counts both.

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "compressors/device/codes.hpp"
#include "on_a_device.hpp"
#include "tests/cuda/emulator/emulator.hpp"

namespace weir::compressors::test {
namespace {

class CostsOnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  const c10::StreamGuard in_stream_{device::coding_stream(gpu)};
};

INSTANTIATE_TEST_SUITE_P(Catalog, CostsOnADevice, ::testing::ValuesIn(compressors_on_a_device()),
                         [](const auto& info) { return info.param; });

/// How often encode() waits for the device, in all passes together, and how many bytes come down beside what is sent.
struct Cost {
  std::uint64_t waits = 1;
  std::uint64_t bytes_beside = 0;
};

Cost cost_of(const std::string& name, std::uint64_t entries) {
  const std::uint64_t likely = 8 * (entries / 64 + 512);  // of entries that a threshold selects
  // 3/8 of as many entries as it stops at: four times as many as are wanted, and a thousand.
  if (name == "dgc") return {.waits = 1, .bytes_beside = 8 * 3 * ((4 * 100 + 1024) / 8 + 1)};
  if (name == "threshold") return {.waits = 1, .bytes_beside = likely};
  // A sample, which here is all of the tensor.
  if (name == "sidco") return {.waits = 2, .bytes_beside = 4 * entries + likely};
  if (name == "cocktail") return {.waits = 2, .bytes_beside = 4 * (entries / 10)};  // the survivors of the draw
  if (name == "casq") return {.waits = 2, .bytes_beside = 4 * entries};  // a sample, which here is all; the code
  // The size, the lengths of all 200 singular vectors, those that are drawn, their products.
  if (name == "atomo") return {.waits = 4, .bytes_beside = 4 * 200};
  if (name == "demo") return {.waits = 1, .bytes_beside = 8 * 16 * 32};  // 32 coefficients of each block
  const std::set<std::string> twice{"chunk", "terngrad", "powersgd",     // passes
                                    "randomk"};                          // whether all values are finite
  return {.waits = twice.contains(name) ? 2U : 1U};
}

TEST_P(CostsOnADevice, OnlyWhatIsSentComesDownAndNothingElseWaits) {
  constexpr std::int64_t entries = 50'000;
  nlohmann::json params = nlohmann::json::object();
  if (GetParam() == "dgc" || GetParam() == "topk") params["ratio"] = 0.002;
  if (GetParam() == "threshold") params["threshold"] = 3.0;
  if (GetParam() == "atomo") params["budget"] = 20;  // of 3 none may be drawn
  // With its default, 0.001, the fit to a normal distribution reaches no entry at first, and sidco looks again.
  if (GetParam() == "sidco") params["ratio"] = 0.01;
  const Case it{GetParam(), params};
  const bool sparse = it.make()->traits().sparse;
  Compression compression = make(it, /*its default*/ "", nlohmann::json::object());
  auto& [compressor, memory] = compression;
  const at::Tensor gradient = gaussian(entries, 3).view({250, 200}).to(gpu);
  at::Tensor mean = at::zeros({250, 200});
  const auto passes = static_cast<std::uint32_t>(compressor->traits().passes.size());
  const auto bytes = emulator::bytes_to_host();
  const auto waits = emulator::waits_of_this_thread();
  Round round = round_at(0);
  const at::Tensor input = memory->compensate(gradient, round).value();
  EXPECT_EQ(emulator::waits_of_this_thread(), waits);
  round.bins = memory->bins(round);
  Selection own;
  Bytes payload;
  std::uint64_t sent = 0;
  for (; round.pass < passes; ++round.pass) {
    payload.clear();
    compressor->encode(input, round, payload, sparse && round.pass + 1 == passes ? &own : nullptr).value();
    sent += payload.size();
    const BytesView result = payload;
    compressor->absorb(std::span(&result, 1), round).value();
  }
  --round.pass;
  memory->update(round, sparse ? Sent(own) : Sent(*compressor, BytesView(payload), round), mean).value();
  const Cost cost = cost_of(GetParam(), entries);
  EXPECT_EQ(emulator::waits_of_this_thread() - waits, cost.waits);
  // Of entries that a threshold has found, some are not sent; beside a code is what was reported.
  EXPECT_LE(emulator::bytes_to_host() - bytes, sent + 2 * 8 * own.size() + cost.bytes_beside + 128);
  EXPECT_LT(sent, 2 * entries + 64) << "or this shows little";
}

/// How many kernels it takes from the gradients of so many tensors to what is kept in memory, and how many the means of
/// two ranks, where payloads are decoded there.
struct Launches {
  std::uint64_t coding = 0;
  std::uint64_t means = 0;
};

Launches launches_of_a_bucket(const Case& it, std::size_t tensors) {
  auto [compressor, memory] = make(it, /*its default*/ "", nlohmann::json::object());
  std::vector<at::Tensor> gradients;
  std::vector<Round> rounds;
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto rows = static_cast<std::int64_t>(100 + 8 * i);  // enough to select largest in one pass
    gradients.push_back(gaussian(rows * 200, i).view({rows, 200}).to(gpu));
    rounds.push_back(round_at(0, static_cast<std::uint32_t>(i)));
  }
  std::vector<at::Tensor> means = gradients;
  const bool sparse = compressor->traits().sparse;
  const auto before = emulator::launches();
  std::vector<at::Tensor> inputs;
  memory->compensate_all(gradients, rounds, inputs).value();
  for (Round& round : rounds) round.bins = memory->bins(round);
  std::vector<Selection> own(tensors);
  std::vector<Bytes> payloads(tensors);
  std::vector<Sent> sent;
  for (std::uint32_t pass = 0; pass < compressor->traits().passes.size(); ++pass) {
    for (Round& round : rounds) round.pass = pass;
    compressor->begin(inputs, rounds).value();
    for (std::size_t i = 0; i < tensors; ++i) {
      payloads[i].clear();
      compressor->encode(inputs[i], rounds[i], payloads[i], sparse ? &own[i] : nullptr).value();
      const BytesView result = payloads[i];
      compressor->absorb(std::span(&result, 1), rounds[i]).value();
    }
  }
  for (std::size_t i = 0; i < tensors; ++i) {
    sent.push_back(sparse ? Sent(own[i]) : Sent(*compressor, BytesView(payloads[i]), rounds[i]));
  }
  memory->update_all(rounds, sent, means).value();
  const auto coded = emulator::launches();
  std::vector<device::ToAdd> waiting;
  for (std::size_t i = 0; !sparse && i < tensors; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      compressor->decode_add_later(payloads[i], rounds[i], 0.5F, means[i], waiting).value();
    }
  }
  compressor->decode_add_all(std::move(waiting)).value();
  compressor->conclude_all(means, rounds).value();
  return {coded - before, emulator::launches() - coded};
}

TEST(CostsOfABucket, AreAsManyLaunchesAsThoseOfOneTensor) {
  const c10::StreamGuard in_stream(device::coding_stream(gpu));
  const std::vector<std::pair<Case, Launches>> all{
      // momentum, cut, selection, velocity, mask
      {{"dgc", {{"ratio", 0.01}, {"adaptations_max", 0}}}, {5, 0}},
      // residual, rough cut, candidates, cut, selection, residual
      {{"topk", {{"ratio", 0.005}}}, {6, 0}},
      // extremes, heads, codes
      {{"int8", {}}, {3, 2}},
      {{"uint8", {}}, {3, 2}},
      // sample, codes, and codes again where values are beyond the sample's
      {{"natural", {}}, {3, 2}},
      {{"qsgd", {}}, {1, 2}},
      // sizes of blocks, of all, codes
      {{"terngrad", {}}, {3, 2}},
      // the majority, too
      {{"signsgd", {}}, {1, 3}},
      // momentum, signs
      {{"signum", {}}, {2, 3}},
      // residual, signs with the sums of blocks, of all, residual
      {{"onebit", {}}, {4, 2}},
      {{"efsignsgd", {}}, {4, 2}}};
  for (const auto& [it, launches] : all) {
    SCOPED_TRACE(it.name);
    for (const std::size_t tensors : {1, 20}) {
      const auto [coding, means] = launches_of_a_bucket(it, tensors);
      EXPECT_EQ(coding, launches.coding) << tensors << " tensors";
      EXPECT_EQ(means, launches.means) << tensors << " tensors";
    }
  }
}

TEST(CostsOfABucket, OfTensorsThatGoDenseAreALaunch) {
  const c10::StreamGuard in_stream(device::coding_stream(gpu));
  const Compression compression = make({"dgc", {}}, "dgc", nlohmann::json::object());
  for (const std::int64_t tensors : {1, 20}) {
    std::vector<at::Tensor> means;
    std::vector<Round> rounds;
    for (std::int64_t i = 0; i < tensors; ++i) {
      means.push_back(gaussian(100 * (i + 1), 3).to(gpu));
      rounds.push_back(round_at(0, static_cast<std::uint32_t>(100 * tensors + i)));
    }
    compression.memory->average_dense_all(means, rounds).value();  // makes momenta
    const auto before = emulator::launches();
    compression.memory->average_dense_all(means, rounds).value();
    EXPECT_EQ(emulator::launches() - before, 1U) << tensors << " tensors";
  }
}

}  // namespace
}  // namespace weir::compressors::test
