// What the thread that computes waits for in a step on a device: the loss of each batch, and nothing else. On the
// emulated device, which counts how often a thread waits, and how many bytes come to the host.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "mode_runs.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "training/modes/passes.hpp"
#include "training/replica.hpp"

namespace weir::training::testing {
namespace {

const at::Device gpu(at::DeviceType::PrivateUse1, 0);

/// What has been counted when each step was done.
class Counts final : public Progress {
 public:
  bool stop_wanted() const override { return waits.size() == 4; }
  Result<void> step_done(const Replica& /*replica*/, const StepRecord& /*record*/) override {
    waits.push_back(emulator::waits_of_this_thread());
    bytes.push_back(emulator::bytes_to_host());
    return {};
  }

  std::vector<std::uint64_t> waits;
  std::vector<std::uint64_t> bytes;
};

/// From each count to the next.
std::vector<std::uint64_t> differences(const std::vector<std::uint64_t>& counts) {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 1; i < counts.size(); ++i) all.push_back(counts[i] - counts[i - 1]);
  return all;
}

using EachStep = std::vector<std::uint64_t>;

struct Case {
  std::string name;
  protocol::Choice optimizer;
  protocol::JobSpec::Clip clip = {};

  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }
};

class WaitsOfAStep : public ::testing::TestWithParam<Case> {
 protected:
  static protocol::JobSpec spec() {
    auto spec = small_job("none");
    spec.training.optimizer = GetParam().optimizer;
    spec.training.clip = GetParam().clip;
    return spec;
  }
};

INSTANTIATE_TEST_SUITE_P(
    All, WaitsOfAStep,
    ::testing::Values(Case{"sgd", {"sgd", {{"lr", 0.05}, {"momentum", 0.9}}}},
                      Case{"sgd_clipped", {"sgd", {{"lr", 0.05}}}, {.norm = 0.1, .value = 0.05}},
                      Case{"adam", {"adam", {{"lr", 0.01}}}}, Case{"lamb", {"lamb", {{"lr", 0.01}}}},
                      Case{"lamb_clipped", {"lamb", {{"lr", 0.01}, {"no_decay", true}}}, {.norm = 0.1}}),
    [](const auto& info) { return info.param.name; });

TEST_P(WaitsOfAStep, AreForTheLossWhichAloneComesToTheHost) {
  auto alone = spec();
  alone.training.mode.name = "local";
  const auto replica = Replica::make(alone, 0, 1, 0, gpu).value();
  Counts counts;
  replica->mode->train(*replica, counts).value();
  EXPECT_EQ(differences(counts.waits), EachStep(3, 1));
  EXPECT_EQ(differences(counts.bytes), EachStep(3, sizeof(float)));
}

TEST_P(WaitsOfAStep, AreForTheLossInAnExchangeToo) {
  for (const bool local : {false, true}) {
    SCOPED_TRACE(local ? "each rank's own gradients are clipped" : "the means are clipped");
    auto together = spec();
    together.training.clip.local = local;
    const Group group = collectives::in_process_group(2);
    std::vector<Counts> counts(2);
    run_ranks(2, [&](std::uint32_t rank) {
      auto replica = Replica::make(together, rank, 2, 0, gpu).value();
      replica->join(*group[rank]).value();
      replica->mode->train(*replica, counts[rank]).value();
      replica.reset();
      group[rank]->close();
    });
    for (const auto& of_rank : counts) {
      ASSERT_GE(of_rank.waits.size(), 4U);
      EXPECT_EQ(differences(of_rank.waits), EachStep(of_rank.waits.size() - 1, 1));
    }
  }
}

TEST(WaitsOfPasses, NoneIsBetweenTheForwardPassAndTheBackwardPass) {
  const auto spec = accumulating(small_job("none"), 3);
  const auto there = Replica::make(spec, 0, 2, 0, gpu).value();
  Passes passes(*there, Passes::all_steps(*there, 3));
  const auto before = emulator::waits_of_this_thread();
  std::uint64_t between = 0;
  const std::function<void()> before_last = [&] { between = emulator::waits_of_this_thread(); };
  const double loss = passes.run(0.1, before_last).value();
  EXPECT_EQ(between - before, 2U) << "for the losses of the batches before";
  EXPECT_EQ(emulator::waits_of_this_thread() - before, 3U);
  const auto here = Replica::make(spec, 0, 2).value();
  EXPECT_EQ(loss, Passes(*here, Passes::all_steps(*here, 3)).run(0.1).value());
}

}  // namespace
}  // namespace weir::training::testing
