#include "training/modes/ssp.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace weir::training {
namespace {

using servers::Decision;

class Bounded final : public servers::PushRule {
 public:
  Bounded(std::vector<std::uint64_t> clocks, std::uint64_t staleness)
      : clocks_(std::move(clocks)), staleness_(staleness) {}

  Result<std::vector<Decision>> arrived(std::uint32_t worker, std::uint64_t, std::uint64_t) override {
    ++clocks_[worker];
    kept_back_.insert(worker);
    return std::vector<Decision>{{.applied = {worker}, .dropped = {}, .answered = released()}};
  }

  std::vector<Decision> halt() override {
    const auto all = std::exchange(kept_back_, {});
    return {{.applied = {}, .dropped = {}, .answered = {all.begin(), all.end()}}};
  }

  std::vector<std::uint32_t> go_on() override {
    for (std::uint32_t worker = 0; worker < clocks_.size(); ++worker) kept_back_.insert(worker);
    return released();
  }

 private:
  /// Those who may go on, who are not kept back any more.
  std::vector<std::uint32_t> released() {
    const std::uint64_t slowest = *std::ranges::min_element(clocks_);
    std::vector<std::uint32_t> free;
    for (const auto worker : kept_back_) {
      if (clocks_[worker] - slowest <= staleness_) free.push_back(worker);
    }
    for (const auto worker : free) kept_back_.erase(worker);
    return free;
  }

  std::vector<std::uint64_t> clocks_;  ///< by worker: its pushes
  const std::uint64_t staleness_;
  std::set<std::uint32_t> kept_back_;
};

}  // namespace

protocol::Params<Ssp::Options> Ssp::params() {
  return protocol::Params<Options>()
      .integer("servers", &Options::servers, {.minimum = 1, .maximum = 1024},
               "Processes that hold the model, each some of its tensors.")
      .integer("staleness", &Options::staleness, {.minimum = 0, .maximum = 1'000'000},
               "How many gradients a worker may be ahead of the slowest.");
}

std::unique_ptr<servers::PushRule> Ssp::rule(const servers::RuleSetting& setting) const {
  return std::make_unique<Bounded>(setting.clocks, static_cast<std::uint64_t>(options_.staleness));
}

}  // namespace weir::training
