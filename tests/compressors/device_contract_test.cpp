// What is coded on a device has the bits that it has on the processor: every compressor and memory that works there.
// The device is the emulated one (compressors_device_test) or a GPU (gpu_coding_test).

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/errc.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/launching.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "on_a_device.hpp"

namespace weir::compressors::test {
namespace {

const at::Device cpu(at::kCPU);

constexpr std::uint64_t steps = 4;
constexpr std::uint64_t dense_step = 1;  ///< in which a tensor is averaged as it is

/// What a rank has sent of a tensor, and what it keeps.
struct Outcome {
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Selection> selections;
  std::vector<at::Tensor> means;
  std::vector<NamedTensor> state;
  bool exact = true;  ///< whether the payloads of a device are to be those of the processor
};

/// Rounds of one rank alone, with a dense one between them. What is decoded there has a weight that is no power of two,
/// so that a bit tells of each rounding.
Outcome run(Compression compression, const std::vector<at::Tensor>& gradients, at::Device device) {
  Outcome outcome;
  auto& [compressor, memory] = compression;
  outcome.exact = compressor->traits().exact_on_devices;
  for (std::uint64_t step = 0; step < gradients.size(); ++step) {
    const at::Tensor& here = gradients[step];
    Round round = round_at(step, 3);
    at::Tensor mean = at::zeros(here.sizes());
    if (step == dense_step) {
      (void)memory->compensate_dense(here, round).value();
      memory->average_dense(mean, round).value();
      continue;
    }
    if (compressor->decodes_on(device)) mean = mean.to(device);
    const at::Tensor gradient = here.to(device);
    const at::Tensor input = memory->compensate(gradient, round).value();
    round.peaks = memory->peaks(round);
    round.bins = memory->bins(round);
    if (step != 2) compressor->begin(std::span(&input, 1), std::span(&round, 1)).value();
    if (compressor->traits().selects) {
      Selection chosen;
      compressor->select_entries(input, round, chosen).value();
      outcome.selections.push_back(std::move(chosen));
    }
    const bool sparse = compressor->traits().sparse;
    Selection own;
    Bytes payload;
    for (round.pass = 0; round.pass < compressor->traits().passes.size(); ++round.pass) {
      const bool last = round.pass + 1 == compressor->traits().passes.size();
      payload.clear();
      compressor->encode(input, round, payload, last && sparse ? &own : nullptr).value();
      outcome.payloads.emplace_back(payload.begin(), payload.end());
      const BytesView result = payload;
      compressor->absorb(std::span(&result, 1), round).value();
    }
    --round.pass;
    compressor->decode_add(payload, round, 1 / 3.0F, mean).value();
    compressor->conclude(mean, round).value();
    memory->update(round, sparse ? Sent(own) : Sent(*compressor, BytesView(payload), round), mean).value();
    outcome.means.push_back(mean.to(cpu));
  }
  for (const auto& [name, tensor] : memory->save()) outcome.state.push_back({name, tensor.to(cpu).clone()});
  for (const auto& [name, tensor] : compressor->save()) outcome.state.push_back({name, tensor.to(cpu).clone()});
  return outcome;
}

/// Where bits cannot be the same: what was sent stands for nearly the same. The lengths of singular vectors come from
/// the squares of a Gram matrix in float32, so that those of short ones differ in the third digit.
void expect_near(const Outcome& there, const Outcome& here) {
  constexpr double share_max = 5e-3;
  ASSERT_EQ(there.means.size(), here.means.size());
  for (std::size_t i = 0; i < here.means.size(); ++i) {
    const double error = squared_norm(there.means[i] - here.means[i]);
    EXPECT_LE(error, share_max * share_max * squared_norm(here.means[i])) << i;
  }
}

/// The same where numbers are rounded at random: that of a vector's opposite, which stands for the same, falls
/// otherwise, but not farther from what is rounded.
void expect_rounded_as_well(const Outcome& there, const Outcome& here, const Outcome& exact) {
  ASSERT_EQ(there.means.size(), exact.means.size());
  for (std::size_t i = 0; i < exact.means.size(); ++i) {
    const double error = squared_norm(there.means[i] - exact.means[i]);
    EXPECT_GT(error, 0) << i;
    EXPECT_LE(error, 2 * squared_norm(here.means[i] - exact.means[i])) << i;
  }
}

void expect_same(const Outcome& there, const Outcome& here) {
  if (!here.exact) return expect_near(there, here);
  EXPECT_EQ(there.payloads, here.payloads);
  ASSERT_EQ(there.selections.size(), here.selections.size());
  for (std::size_t i = 0; i < here.selections.size(); ++i) {
    EXPECT_EQ(there.selections[i].positions, here.selections[i].positions);
    EXPECT_EQ(there.selections[i].values, here.selections[i].values);
  }
  ASSERT_EQ(there.means.size(), here.means.size());
  for (std::size_t i = 0; i < here.means.size(); ++i) EXPECT_TRUE(same_bits(there.means[i], here.means[i])) << i;
  ASSERT_EQ(there.state.size(), here.state.size());
  for (std::size_t i = 0; i < here.state.size(); ++i) {
    EXPECT_EQ(there.state[i].name, here.state[i].name);
    EXPECT_TRUE(same_bits(there.state[i].tensor, here.state[i].tensor)) << here.state[i].name;
  }
}

/// One that works on a device with the compressor.
std::string memory_for(const Case& it) {
  const nlohmann::json none = nlohmann::json::object();
  const auto residual = builtin().make(
      {.compressor = it.name, .params = it.params, .memory = "residual", .memory_params = none, .setting = {}});
  return residual && residual->codes_on(gpu) ? "residual" : "none";
}

/// Each test runs for one compressor, with all of its cases.
class OnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  /// Calls check(memory, its parameters) for every memory that fits and works there, too; dgc's also with clipping and
  /// the other form of momentum, others with a share that is kept.
  template <class Check>
  static void for_each_memory(const Case& it, const Check& check) {
    for (const MemoryEntry& memory : builtin().memories()) {
      if (memory.misfit(*it.make())) continue;
      std::vector<nlohmann::json> params{nlohmann::json::object()};
      if (memory.name == "dgc") params.push_back({{"clip_norm", 0.5}, {"momentum_masking", false}});
      if (memory.name == "ef21") params.push_back({{"momentum", 0.9}});
      if (memory.name == "efsignsgd") params.push_back({{"beta", 0.9}});
      for (const auto& of_memory : params) {
        if (!make(it, memory.name, of_memory).codes_on(gpu)) continue;
        SCOPED_TRACE(::testing::PrintToString(it) + " with " + memory.name + of_memory.dump());
        check(memory.name, of_memory);
      }
    }
  }

  const c10::StreamGuard in_stream_{device::coding_stream(gpu)};
};

INSTANTIATE_TEST_SUITE_P(Catalog, OnADevice, ::testing::ValuesIn(compressors_on_a_device()),
                         [](const auto& info) { return info.param; });

TEST(CodingOnADevice, IsThereForWhatTheDocumentsName) {
  std::set<std::string> on_the_host;
  std::set<std::string> decoded_on_the_host;
  std::set<std::string> inexact;
  for (const Case& it : cases()) {
    const auto compressor = it.make();
    const Traits traits = compressor->traits();
    EXPECT_EQ(compressor->codes_on(gpu), traits.device_misfit.empty()) << ::testing::PrintToString(it);
    if (!compressor->codes_on(gpu)) on_the_host.insert(it.name);
    if (!compressor->decodes_on(gpu)) decoded_on_the_host.insert(it.name + it.params.value("atoms", ""));
    if (!traits.exact_on_devices) inexact.insert(it.name);
  }
  EXPECT_EQ(on_the_host, std::set<std::string>{"none"});
  EXPECT_EQ(decoded_on_the_host, std::set<std::string>{"none"});
  EXPECT_EQ(inexact, std::set<std::string>{"atomo"});
  const nlohmann::json none = nlohmann::json::object();
  for (const MemoryEntry& memory : builtin().memories()) {
    EXPECT_TRUE(memory.make(none, {}).value()->codes_on(gpu)) << memory.name;
  }
}

TEST_P(OnADevice, SendsAndKeepsTheProcessorsBits) {
  std::vector<at::Tensor> gradients;
  for (std::uint64_t step = 0; step < steps; ++step) {
    gradients.push_back(heavy_tailed(31 * 50, 100 + step).view({31, 50}));
  }
  const auto compare = [&](const Case& it, const std::string& memory, const nlohmann::json& params) {
    expect_same(run(make(it, memory, params), gradients, gpu), run(make(it, memory, params), gradients, cpu));
  };
  const Case defaults{GetParam(), nlohmann::json::object()};
  for_each_memory(defaults, [&](const auto& memory, const auto& params) { compare(defaults, memory, params); });
  for (const Case& it : cases()) {
    if (it.name != GetParam() || it.params.empty()) continue;
    SCOPED_TRACE(::testing::PrintToString(it));
    if (!it.make()->traits().exact_on_devices && it.params.value("quantize_bits", 0) > 0) {
      nlohmann::json params = it.params;
      params.erase("quantize_bits");
      const auto of = [&](const Case& one, at::Device device) {
        return run(make(one, "none", nlohmann::json::object()), gradients, device);
      };
      expect_rounded_as_well(of(it, gpu), of(it, cpu), of({it.name, params}, cpu));
      continue;
    }
    compare(it, memory_for(it), nlohmann::json::object());
  }
}

TEST_P(OnADevice, TakesSmallAndEmptyTensorsAndZeros) {
  const Case it{GetParam(), nlohmann::json::object()};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{0, 3}, {1, 1}, {3, 11}, {257}}) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const auto entries = c10::multiply_integers(shape);
    const std::vector<at::Tensor> gradients{gaussian(entries, 5).view(shape), gaussian(entries, 6).view(shape),
                                            at::zeros(shape)};
    expect_same(run(make(it, "none", it.params), gradients, gpu), run(make(it, "none", it.params), gradients, cpu));
  }
}

TEST_P(OnADevice, TakesTheLargestAndTheSmallestNumbers) {
  const Case it{GetParam(), nlohmann::json::object()};
  for (const float size : {3e38F, 1e-38F}) {
    SCOPED_TRACE(size);
    const std::vector<at::Tensor> gradients{uniform(70 * 90, 8).view({70, 90}) * size};
    expect_same(run(make(it, "none", it.params), gradients, gpu), run(make(it, "none", it.params), gradients, cpu));
  }
}

TEST_P(OnADevice, ChoosesByASampleAsOnTheProcessor) {
  const Case it{GetParam(), nlohmann::json::object()};
  const std::string memory = memory_for(it);
  using Make = at::Tensor (*)(std::int64_t, std::uint64_t);
  const Make equal = [](std::int64_t entries, std::uint64_t seed) { return gaussian(entries, seed).sign(); };
  for (const Make kind : {Make(gaussian), Make(heavy_tailed), Make(sparse), equal}) {
    std::vector<at::Tensor> gradients;
    for (std::uint64_t step = 0; step < 2; ++step) gradients.push_back(kind(60'000, 7 + step).view({200, 300}));
    expect_same(run(make(it, memory, it.params), gradients, gpu), run(make(it, memory, it.params), gradients, cpu));
  }
}

TEST_P(OnADevice, TakesOtherTypesAndWhatIsNotContiguous) {
  const Case it{GetParam(), nlohmann::json::object()};
  const auto compressor = it.make();
  const auto other = it.make();
  for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor here = gaussian(30 * 20, 9).view({30, 20}).to(type).t();
    for (Round round = round_at(1); round.pass < compressor->traits().passes.size(); ++round.pass) {
      Bytes due;
      compressor->encode(here, round, due).value();
      Bytes found;
      other->encode(here.to(gpu), round, found).value();
      EXPECT_TRUE(!compressor->traits().exact_on_devices || std::ranges::equal(found, due)) << type;
      const BytesView result = due;
      compressor->absorb(std::span(&result, 1), round).value();
      other->absorb(std::span(&result, 1), round).value();
    }
  }
}

/// Rounds of a bucket's tensors, one rank alone, whose payloads count as those of two for the means: together as far as
/// that goes, or one after the other. Returns what was sent, and the means and the state.
Outcome run_bucket(const Case& it, const std::string& memory_name, bool together) {
  Outcome outcome;
  auto [compressor, memory] = make(it, memory_name, nlohmann::json::object());
  const bool sparse = compressor->traits().sparse;
  const auto passes = static_cast<std::uint32_t>(compressor->traits().passes.size());
  // Also some of which dgc takes a sample and topk few candidates, and one without entries.
  const std::vector<std::vector<std::int64_t>> shapes{{30, 9}, {0, 3}, {95, 200}, {20'001}, {64, 64}, {1, 1}};
  for (std::uint64_t step = 0; step < 2; ++step) {
    std::vector<at::Tensor> gradients;
    std::vector<at::Tensor> means;
    std::vector<Round> rounds;
    for (const auto& shape : shapes) {
      gradients.push_back(gaussian(c10::multiply_integers(shape), 31 * step + gradients.size()).view(shape).to(gpu));
      means.push_back(at::zeros(shape).to(gpu));
      rounds.push_back(round_at(step, static_cast<std::uint32_t>(rounds.size())));
    }
    std::vector<at::Tensor> inputs;
    if (together) {
      memory->compensate_all(gradients, rounds, inputs).value();
    } else {
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        inputs.push_back(memory->compensate(gradients[i], rounds[i]).value());
      }
    }
    std::vector<Selection> own(shapes.size());
    std::vector<Bytes> payloads(shapes.size());
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
      for (Round& round : rounds) {
        round.pass = pass;
        round.bins = memory->bins(round);
      }
      if (together) compressor->begin(inputs, rounds).value();
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        payloads[i].clear();
        const bool last = pass + 1 == passes;
        compressor->encode(inputs[i], rounds[i], payloads[i], last && sparse ? &own[i] : nullptr).value();
        outcome.payloads.emplace_back(payloads[i].begin(), payloads[i].end());
        const BytesView result = payloads[i];
        compressor->absorb(std::span(&result, 1), rounds[i]).value();
      }
    }
    std::vector<Sent> sent;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      sent.push_back(sparse ? Sent(own[i]) : Sent(*compressor, BytesView(payloads[i]), rounds[i]));
    }
    std::vector<device::ToAdd> waiting;
    const bool decodes = compressor->decodes_on(gpu);
    for (std::size_t i = 0; decodes && i < shapes.size(); ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        const BytesView payload = payloads[i];
        auto added = together ? compressor->decode_add_later(payload, rounds[i], 0.5F, means[i], waiting)
                              : compressor->decode_add(payload, rounds[i], 0.5F, means[i]);
        added.value();
      }
    }
    if (together) {
      compressor->decode_add_all(std::move(waiting)).value();
      if (decodes) compressor->conclude_all(means, rounds).value();
      memory->update_all(rounds, sent, means).value();
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (!together) {
        if (decodes) compressor->conclude(means[i], rounds[i]).value();
        memory->update(rounds[i], sent[i], means[i]).value();
      }
      outcome.state.push_back({"mean", means[i].to(cpu)});
    }
  }
  for (const auto& state : {memory->save(), compressor->save()}) {
    for (const auto& [name, tensor] : state) outcome.state.push_back({name, tensor.to(cpu).clone()});
  }
  return outcome;
}

TEST_P(OnADevice, TensorsTakenTogetherAreTakenAsOneByOne) {
  const Case it{GetParam(), nlohmann::json::object()};
  const bool sparse = it.make()->traits().sparse;
  for (const std::string memory : {"none", "residual", sparse ? "dgc" : "efsignsgd", "powersgd"}) {
    if (sparse && memory == "none") continue;
    const nlohmann::json none = nlohmann::json::object();
    const auto made = builtin().make(
        {.compressor = it.name, .params = it.params, .memory = memory, .memory_params = none, .setting = {}});
    if (!made || !made->codes_on(gpu)) continue;
    SCOPED_TRACE(memory);
    expect_same(run_bucket(it, memory, true), run_bucket(it, memory, false));
  }
}

/// As after a step that another tensor's failure has ended.
TEST_P(OnADevice, WhatWasBegunAndNotEncodedIsForgotten) {
  const Case it{GetParam(), nlohmann::json::object()};
  const auto compressor = it.make();
  const auto other = it.make();
  const at::Tensor begun = gaussian(60'000, 1).view({200, 300}).to(gpu);
  const Round before = round_at(0);
  compressor->begin(std::span(&begun, 1), std::span(&before, 1)).value();
  const at::Tensor gradient = gaussian(60'000, 2).view({200, 300}).to(gpu);
  Bytes found;
  Bytes due;
  compressor->encode(gradient, round_at(1), found).value();
  other->encode(gradient, round_at(1), due).value();
  EXPECT_TRUE(!compressor->traits().exact_on_devices || std::ranges::equal(found, due));
}

/// Of compressors whose payloads are gathered and decoded there.
class GatheredOnADevice : public OnADevice {
 public:
  static std::vector<std::string> names() {
    auto names = compressors_on_a_device();
    std::erase_if(names, [](const std::string& name) {
      const auto compressor = Case{name, nlohmann::json::object()}.make();
      return !compressor->decodes_on(gpu) || compressor->traits().passes.back() != Reduction::gather;
    });
    return names;
  }
};

INSTANTIATE_TEST_SUITE_P(Catalog, GatheredOnADevice, ::testing::ValuesIn(GatheredOnADevice::names()),
                         [](const auto& info) { return info.param; });

/// That a device makes the mean of three ranks as the processor does.
void expect_mean_there(const Case& it) {
  const auto compressor = it.make();
  constexpr std::uint32_t world = 3;
  std::vector<Bytes> payloads(world);
  Round round = round_at(2);
  round.world = world;
  for (; round.pass < compressor->traits().passes.size(); ++round.pass) {
    std::vector<BytesView> results;
    for (round.rank = 0; round.rank < world; ++round.rank) {
      payloads[round.rank].clear();
      compressor->encode(gaussian(37 * 29, round.rank).view({37, 29}), round, payloads[round.rank]).value();
      results.emplace_back(payloads[round.rank]);
    }
    const bool gathered = compressor->traits().passes[round.pass] == Reduction::gather;
    // Of a maximum, that of one rank serves.
    compressor->absorb(gathered ? std::span(results) : std::span(results).first(1), round).value();
  }
  --round.pass;
  round.rank = 1;
  const std::vector<BytesView> all(payloads.begin(), payloads.end());
  const at::Tensor before = gaussian(37 * 29, 9).view({37, 29});
  at::Tensor here = before.clone();
  at::Tensor there = before.to(gpu);
  compressor->decode_add_ranks(all, round, 1 / 3.0F, here).value();
  compressor->decode_add_ranks(all, round, 1 / 3.0F, there).value();
  EXPECT_TRUE(same_bits(there.to(cpu), here));
}

TEST_P(GatheredOnADevice, TheMeanOfAllRanksIsMadeThere) {
  expect_mean_there(Case{GetParam(), nlohmann::json::object()});
}

TEST(GatheredOnADevice, TheMeanOfAtomosOtherAtomsIsMadeThere) {
  const c10::StreamGuard in_stream(device::coding_stream(gpu));
  for (const char* const atoms : {"entrywise", "dct"}) {
    SCOPED_TRACE(atoms);
    expect_mean_there(Case{"atomo", {{"atoms", atoms}}});
  }
}

TEST_P(OnADevice, APayloadThatIsCutOffIsRefusedThere) {
  const Case it{GetParam(), nlohmann::json::object()};
  const auto compressor = it.make();
  Bytes payload;
  Round round = round_at(1);
  for (; round.pass < compressor->traits().passes.size(); ++round.pass) {
    payload.clear();
    compressor->encode(gaussian(900, 3).view({30, 30}), round, payload).value();
    const BytesView result = payload;
    compressor->absorb(std::span(&result, 1), round).value();
  }
  --round.pass;
  at::Tensor sum = at::zeros({30, 30}).to(gpu);
  const auto added = compressor->decode_add(BytesView(payload).first(payload.size() - 1), round, 1, sum);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::malformed) << added.error().message();
  EXPECT_TRUE(sum.to(cpu).equal(at::zeros({30, 30})));
}

/// Encodes what a rank alone sends in all passes, up to the first that fails.
Result<void> encode_all(Compressor& compressor, const at::Tensor& gradient, Bytes& payload) {
  for (Round round = round_at(1); round.pass < compressor.traits().passes.size(); ++round.pass) {
    payload.clear();
    if (auto encoded = compressor.encode(gradient, round, payload); !encoded) return encoded;
    const BytesView result = payload;
    compressor.absorb(std::span(&result, 1), round).value();
  }
  return {};
}

TEST_P(OnADevice, NamesAnEntryThatIsNoNumber) {
  const bool draws = GetParam() == "randomk" || GetParam() == "cocktail";
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t entries : {33, 40'000}) {
      // Of 33 entries all are drawn, the bad ones too; of 40,000 most are not.
      nlohmann::json params = nlohmann::json::object();
      if (draws && entries == 33) params["ratio"] = 1.0;
      at::Tensor here = gaussian(entries, 4).view({entries == 33 ? 1 : 200, -1});
      here.view({-1})[entries - 2] = bad;
      here.view({-1})[17] = bad;
      const auto compressor = Case{GetParam(), params}.make();
      Bytes payload;
      const auto due = encode_all(*compressor, here, payload);
      const auto found = encode_all(*compressor, here.to(gpu), payload);
      ASSERT_FALSE(due);
      ASSERT_FALSE(found);
      EXPECT_EQ(found.error(), due.error());
      EXPECT_NE(found.error().context.find("at entry 17 "), std::string::npos) << found.error().context;
      EXPECT_TRUE(payload.empty());
    }
  }
}

/// A rank whose gradients lie here in one step and there in the next, or that goes on from a checkpoint of the other
/// kind.
TEST_P(OnADevice, StateGoesBetweenTheDeviceAndTheProcessor) {
  const Case it{GetParam(), nlohmann::json::object()};
  for_each_memory(it, [&](const std::string& memory, const nlohmann::json& params) {
    Compression moving = make(it, memory, params);
    Compression staying = make(it, memory, params);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const at::Tensor here = gaussian(300, 50 + step).view({10, 30});
      const at::Tensor there = here.to(step % 2 == 0 ? gpu : cpu);
      const auto a = moving.memory->compensate(there, round_at(step)).value();
      const auto b = staying.memory->compensate(here, round_at(step)).value();
      EXPECT_EQ(a.device(), there.device());
      EXPECT_TRUE(same_bits(a.to(cpu), b));
      if (TensorStore* const unsent = moving.memory->unsent()) {
        const std::vector<float> more(20, 0.25F);
        EXPECT_TRUE(unsent->add(round_at(step), 7, more));
        EXPECT_TRUE(staying.memory->unsent()->add(round_at(step), 7, more));
      }
      if (step == 2) {
        std::vector<NamedTensor> state;
        for (const auto& [name, tensor] : moving.memory->save()) state.push_back({name, tensor.to(cpu)});
        moving = make(it, memory, params);
        moving.memory->restore(state).value();
      }
    }
  });
}

/// What is copied goes in pieces of 4 MiB, and each place begins at a multiple of 16 bytes.
TEST(BroughtUp, AreAllBytesOfAllPlaces) {
  const c10::StreamGuard in_stream(device::coding_stream(gpu));
  constexpr std::size_t piece = device::copied_piece;
  for (const auto& sizes : std::vector<std::vector<std::size_t>>{
           {}, {0}, {5}, {piece}, {piece + 1}, {piece - 8, 10, 0, 3}, {7, 2 * piece + 3, 1, piece - 16, 16, 16}}) {
    SCOPED_TRACE(::testing::PrintToString(sizes));
    std::vector<std::vector<std::byte>> all;
    std::vector<BytesView> views;
    for (const std::size_t size : sizes) {
      auto& bytes = all.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i + all.size()) * 2654435761U >> 13);
      views.emplace_back(bytes);
    }
    const auto raised = device::bring_up_all(views, at::zeros({1}).to(gpu));
    const at::Tensor below = raised.all.to(cpu);
    ASSERT_EQ(raised.begins.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(raised.begins[i] % 16, 0);
      const auto* const at = static_cast<const std::byte*>(below.data_ptr()) + raised.begins[i];
      EXPECT_TRUE(std::equal(all[i].begin(), all[i].end(), at));
    }
  }
}

}  // namespace
}  // namespace weir::compressors::test
