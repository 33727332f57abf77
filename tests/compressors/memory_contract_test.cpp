// What every memory promises with every compressor it fits.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <functional>
#include <thread>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

struct Pair {
  std::string compressor;
  std::string memory;
  nlohmann::json params = nullptr;  ///< of the compressor
};

void PrintTo(const Pair& it, std::ostream* out) {
  *out << it.compressor << (it.params.is_null() ? "" : it.params.dump()) << " with " << it.memory;
}

Compression make(const Pair& pair, const MemorySetting& setting, const nlohmann::json& memory_params = {}) {
  return builtin()
      .make({.compressor = pair.compressor,
             .params = pair.params,
             .memory = pair.memory,
             .memory_params = memory_params,
             .setting = setting})
      .value();
}

Compression make(const Pair& pair, bool nesterov = false) {
  return make(pair, {.momentum = 0.9, .nesterov = nesterov});
}

constexpr std::uint32_t tensors = 2;

/// One round of one rank alone; gives what was exchanged.
at::Tensor run_round(Compression& compression, const at::Tensor& gradient, const Round& round) {
  const at::Tensor input = compression.memory->compensate(gradient, round).value();
  const Bytes payload = encoded(*compression.compressor, input, round);
  at::Tensor mean = decoded(*compression.compressor, payload, gradient, round);
  compression.compressor->conclude(mean, round).value();
  compression.memory->update(round, SentPayload(*compression.compressor, payload, round, mean), mean).value();
  return mean;
}

at::Tensor gradient_at(std::uint64_t step, std::uint32_t tensor) {
  return gaussian(tensor == 0 ? 1'500 : 40, 1'000 + step * tensors + tensor).reshape({tensor == 0 ? 30 : 4, -1});
}

std::vector<NamedTensor> cloned(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> copy;
  for (const NamedTensor& tensor : state) copy.push_back({tensor.name, tensor.tensor.clone()});
  return copy;
}

/// Each test runs for one compressor, with every memory that fits it.
class MemoryContract : public ::testing::TestWithParam<std::string> {
 protected:
  using Check = std::function<void(const Pair&)>;

  void for_each_memory(const Check& check, const nlohmann::json& params = nullptr) {
    const auto compressor = builtin().make_compressor(GetParam(), params).value();
    for (const MemoryEntry& memory : builtin().memories()) {
      if (memory.misfit(*compressor)) continue;
      const Pair pair{GetParam(), memory.name, params};
      SCOPED_TRACE(::testing::PrintToString(pair));
      check(pair);
    }
  }
  /// With each case of the compressor's parameters.
  void for_each_case(const Check& check) {
    for (const Case& it : cases()) {
      if (it.name == GetParam()) for_each_memory(check, it.params);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Catalog, MemoryContract, ::testing::ValuesIn(compressor_names()),
                         [](const auto& info) { return info.param; });

/// What was sent and what is still owed add up to all gradients, after any number of rounds: what a memory gives for a
/// gradient of zero is what it owes.
TEST_P(MemoryContract, ErrorFeedbackTelescopes) {
  for_each_case([&](const Pair& pair) {
    if (pair.memory == "none" || pair.memory == "ef21") return;  // nothing is owed; ef21 sends differences of gradients
    const bool decays = pair.memory == "residual" || pair.memory == "efsignsgd";
    const nlohmann::json params = decays ? nlohmann::json{{"beta", 1}} : nlohmann::json();
    Compression compression = make(pair, MemorySetting{}, params);
    if (compression.compressor->traits().votes) return;  // what the ranks agree on is not what they sent
    at::Tensor gradients = at::zeros({30, 50}, at::kDouble);
    at::Tensor sent = at::zeros({30, 50}, at::kDouble);
    double magnitude = 0;
    for (std::uint64_t step = 0; step < 30; ++step) {
      const at::Tensor gradient = gradient_at(step, 0);
      sent += run_round(compression, gradient, round_at(step));
      gradients += gradient;
      magnitude += std::sqrt(squared_norm(gradient));
    }
    const at::Tensor owed = compression.memory->compensate(at::zeros({30, 50}), round_at(30)).value();
    EXPECT_LE(std::sqrt(squared_norm(gradients - sent - owed)), 1e-5 * magnitude);
    // Of an error that is never larger than what was encoded, no more is owed than ever came in.
    EXPECT_LE(std::sqrt(squared_norm(owed)), 1.01 * magnitude);
    EXPECT_LE(std::sqrt(squared_norm(sent)), 3 * magnitude);
  });
}

TEST_P(MemoryContract, PeaksChangeNoBitOfAPayload) {
  for_each_case([&](const Pair& pair) {
    Compression with = make(pair);
    Compression without = make(pair);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const at::Tensor gradient = gradient_at(step, 0);
      Round round = round_at(step);
      const at::Tensor input = with.memory->compensate(gradient, round).value();
      round.peaks = with.memory->peaks(round);
      if (!round.peaks.empty()) {
        const auto values = flat(input);
        ASSERT_EQ(round.peaks.size(), peaks_of(values.size()));
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_LE(magnitude(values[i]), magnitude(round.peaks[i / peak_block]));
        }
      }
      const Bytes payload = encoded(*with.compressor, input, round);
      at::Tensor mean = decoded(*with.compressor, payload, gradient, round);
      with.compressor->conclude(mean, round).value();
      with.memory->update(round, SentPayload(*with.compressor, payload, round, mean), mean).value();
      EXPECT_TRUE(same_bits(mean, run_round(without, gradient, round_at(step))));
    }
  });
}

/// Rounds of two tensors in turns, each a step ahead of the other: while one is encoded, the other is decoded. Gives
/// everything that was exchanged.
class Turns {
 public:
  Turns(Compression compression, std::uint64_t rounds) : compression_(std::move(compression)), rounds_(rounds) {}

  std::vector<at::Tensor> one_after_the_other() {
    for (std::uint64_t turn = 0; turn < rounds_; ++turn) {
      encode(turn);
      decode(turn);
    }
    return std::move(means_);
  }

  std::vector<at::Tensor> side_by_side() {
    std::barrier next_turn(2);
    std::jthread decoder([&] {
      const at::NoGradGuard no_grad;
      for (std::uint64_t turn = 0; turn <= rounds_; ++turn) {
        if (turn > 0) decode(turn - 1);
        next_turn.arrive_and_wait();
      }
    });
    for (std::uint64_t turn = 0; turn <= rounds_; ++turn) {
      if (turn < rounds_) encode(turn);
      next_turn.arrive_and_wait();
    }
    decoder.join();
    return std::move(means_);
  }

 private:
  static Round round_of(std::uint64_t turn) {
    Round round = round_at(turn / 2);
    round.tensor = static_cast<std::uint32_t>(turn % 2);
    return round;
  }
  static at::Tensor gradient_of(std::uint64_t turn) { return gaussian(100'000, 500 + turn).reshape({100, -1}); }

  void encode(std::uint64_t turn) {
    const Round round = round_of(turn);
    const at::Tensor input = compression_.memory->compensate(gradient_of(turn), round).value();
    payloads_[turn % 2] = encoded(*compression_.compressor, input, round);
  }
  void decode(std::uint64_t turn) {
    const Round round = round_of(turn);
    const Bytes payload = std::move(payloads_[turn % 2]);
    at::Tensor mean = decoded(*compression_.compressor, payload, gradient_of(turn), round);
    compression_.compressor->conclude(mean, round).value();
    compression_.memory->update(round, SentPayload(*compression_.compressor, payload, round, mean), mean).value();
    means_.push_back(mean);
  }

  Compression compression_;
  const std::uint64_t rounds_;
  std::array<Bytes, 2> payloads_;
  std::vector<at::Tensor> means_;
};

TEST_P(MemoryContract, OneTensorMayBeEncodedWhileAnotherIsDecoded) {
  for_each_memory([&](const Pair& pair) {
    constexpr std::uint64_t rounds = 16;
    const auto expected = Turns(make(pair), rounds).one_after_the_other();
    const auto means = Turns(make(pair), rounds).side_by_side();
    ASSERT_EQ(means.size(), expected.size());
    for (std::size_t turn = 0; turn < rounds; ++turn) EXPECT_TRUE(same_bits(means[turn], expected[turn])) << turn;
  });
}

TEST_P(MemoryContract, LeavesTheGradientAlone) {
  for_each_memory([&](const Pair& pair) {
    Compression compression = make(pair);
    const at::Tensor gradient = gradient_at(0, 0);
    const at::Tensor before = gradient.clone();
    run_round(compression, gradient, round_at(0));
    run_round(compression, gradient, round_at(1));
    EXPECT_TRUE(same_bits(gradient, before));
  });
}

TEST_P(MemoryContract, StateGoesOnBitForBitAfterARestore) {
  for_each_memory([&](const Pair& pair) {
    for (const bool nesterov : {false, true}) {
      Compression first = make(pair, nesterov);
      for (std::uint64_t step = 0; step < 4; ++step) {
        for (std::uint32_t tensor = 0; tensor < tensors; ++tensor) {
          run_round(first, gradient_at(step, tensor), round_at(step, tensor));
        }
      }
      at::Tensor bias = gaussian(9, 3);
      ASSERT_TRUE(first.memory->average_dense(bias, round_at(3, tensors)));

      Compression second = make(pair, nesterov);
      run_round(second, gradient_at(9, 1), round_at(9, 1));  // state that the restore has to replace
      ASSERT_TRUE(second.memory->restore(cloned(first.memory->save())));
      ASSERT_TRUE(second.compressor->restore(cloned(first.compressor->save())));
      for (std::uint64_t step = 4; step < 8; ++step) {
        for (std::uint32_t tensor = 0; tensor < tensors; ++tensor) {
          const Round round = round_at(step, tensor);
          EXPECT_TRUE(same_bits(run_round(first, gradient_at(step, tensor), round),
                                run_round(second, gradient_at(step, tensor), round)));
        }
        at::Tensor a = gaussian(9, step);
        at::Tensor b = a.clone();
        ASSERT_TRUE(first.memory->average_dense(a, round_at(step, tensors)));
        ASSERT_TRUE(second.memory->average_dense(b, round_at(step, tensors)));
        EXPECT_TRUE(same_bits(a, b));
      }
      const auto left = first.memory->save();
      const auto right = second.memory->save();
      ASSERT_EQ(left.size(), right.size());
      for (std::size_t i = 0; i < left.size(); ++i) {
        EXPECT_EQ(left[i].name, right[i].name);
        EXPECT_TRUE(same_bits(left[i].tensor, right[i].tensor)) << left[i].name;
      }
    }
  });
}

TEST_P(MemoryContract, RefusesStateThatIsNotItsOwn) {
  for_each_memory([&](const Pair& pair) {
    Compression compression = make(pair);
    for (const char* name : {"", "residue.0", "residual", "velocity.", "velocity.-1", "momentum.x", "momentum.1.2"}) {
      const std::vector<NamedTensor> state = {{name, at::zeros({2})}};
      EXPECT_EQ(compression.memory->restore(state).error().code, Errc::malformed) << name;
    }
    for (const char* name : {"residual.0", "velocity.0"}) {
      const std::vector<NamedTensor> state = {{name, at::zeros({2}, at::kDouble)}};
      EXPECT_EQ(compression.memory->restore(state).error().code, Errc::malformed) << name;
    }
    EXPECT_TRUE(compression.memory->restore({}));
  });
}

TEST_P(MemoryContract, RefusesATensorThatChangesItsShape) {
  for_each_memory([&](const Pair& pair) {
    Compression compression = make(pair);
    run_round(compression, gradient_at(0, 0), round_at(0));
    const auto again = compression.memory->compensate(gaussian(7, 1), round_at(1));
    if (compression.memory->save().empty()) {
      EXPECT_TRUE(again);
    } else {
      EXPECT_EQ(again.error().code, Errc::invalid_argument);
    }
  });
}

}  // namespace
}  // namespace weir::compressors::test
