// The interface carries compressors that talk more than once in a round. A small one stands here for all of them:
// rank-1 PowerSGD (Vogels et al. 2019), which sums one factor, makes the other from it, and starts warm from its last
// round.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/errc.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

class RankOne final : public Compressor {
 public:
  std::string_view name() const override { return "rank_one"; }
  Traits traits() const override { return {.passes = {Reduction::sum, Reduction::sum}, .stateful = true}; }
  double error_bound(std::uint64_t, const Round&) const override { return 1; }

  Result<void> absorb(std::span<const BytesView> results, const Round& round) override {
    at::Tensor& factor = (round.pass == 0 ? left_ : right_)[round.tensor];
    factor = floats(results[0]);
    if (round.pass == 0) factor /= factor.norm();
    return {};
  }
  std::vector<NamedTensor> save() const override {
    std::vector<NamedTensor> state;
    for (const auto& [tensor, right] : right_) state.push_back({std::to_string(tensor), right});
    return state;
  }
  Result<void> restore(std::span<const NamedTensor> state) override {
    for (const NamedTensor& it : state) right_[static_cast<std::uint32_t>(std::stoul(it.name))] = it.tensor.clone();
    return {};
  }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override {
    at::Tensor& right = right_[round.tensor];
    if (!right.defined()) right = gaussian(gradient.size(1), round.seed);
    const at::Tensor factor = round.pass == 0 ? gradient.mv(right) : gradient.t().mv(left_.at(round.tensor));
    const auto bytes = std::as_bytes(std::span(factor.data_ptr<float>(), static_cast<std::size_t>(factor.numel())));
    out.insert(out.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override {
    if (payload.size() != static_cast<std::size_t>(sum.size(1)) * sizeof(float)) return Error(Errc::malformed);
    sum.add_(at::outer(left_.at(round.tensor), floats(payload)), weight);
    return {};
  }

 private:
  static at::Tensor floats(BytesView bytes) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size() / sizeof(float))}, at::kFloat);
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }

  std::map<std::uint32_t, at::Tensor> left_;
  std::map<std::uint32_t, at::Tensor> right_;
};

/// A round as the exchange runs it, with all ranks in one place: gives the mean that each rank decodes.
template <class Ranks>
std::vector<at::Tensor> run_round(Ranks& ranks, const std::vector<at::Tensor>& gradients, Round round) {
  std::vector<at::Tensor> means;
  const auto passes = ranks[0].traits().passes;
  for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
    std::vector<Bytes> payloads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].encode(gradients[rank], round, payloads.emplace_back()).value();
    }
    at::Tensor summed = at::zeros({static_cast<std::int64_t>(payloads[0].size() / sizeof(float))});
    for (Bytes& payload : payloads) summed += at::from_blob(payload.data(), summed.sizes(), at::kFloat);
    const BytesView result(static_cast<const std::byte*>(summed.data_ptr()), summed.nbytes());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].absorb(std::span(&result, 1), round).value();
      if (round.pass + 1 == passes.size()) {
        at::Tensor mean = at::zeros_like(gradients[rank]);
        ranks[rank].decode_add(result, round, 1.0F / static_cast<float>(ranks.size()), mean).value();
        means.push_back(mean);
      }
    }
  }
  return means;
}

TEST(Passes, TwoSummedPassesFindTheMeanOfRankOneGradients) {
  constexpr std::int64_t rows = 20;
  constexpr std::int64_t columns = 30;
  const at::Tensor direction = gaussian(columns, 1);
  std::vector<RankOne> ranks(3);
  std::vector<at::Tensor> gradients;
  at::Tensor exact = at::zeros({rows, columns});
  for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
    gradients.push_back(at::outer(gaussian(rows, 10 + rank), direction));
    exact += gradients.back() / 3;
  }
  const std::vector<at::Tensor> means = run_round(ranks, gradients, round_at(0));
  for (const at::Tensor& mean : means) {
    EXPECT_TRUE(at::allclose(mean, exact, 1e-4, 1e-4));
    EXPECT_TRUE(same_bits(mean, means[0])) << "replicas do not drift";
  }
}

TEST(Passes, StateBetweenRoundsIsSavedAndRestored) {
  std::vector<RankOne> first(1);
  const at::Tensor gradient = gaussian(600, 2).reshape({20, 30});
  run_round(first, {gradient}, round_at(0));
  std::vector<RankOne> second(1);
  ASSERT_TRUE(second[0].restore(first[0].save()));
  EXPECT_TRUE(same_bits(run_round(first, {gradient}, round_at(1))[0], run_round(second, {gradient}, round_at(1))[0]));
}

}  // namespace
}  // namespace weir::compressors::test
