#include "training/modes/async.hpp"

#include <ATen/TensorOperators.h>

#include <numeric>
#include <vector>

namespace weir::training {
namespace {

using servers::Decision;

class OnArrival final : public servers::PushRule {
 public:
  OnArrival(std::size_t workers, double compensation) : workers_(workers), compensation_(compensation) {}

  Result<std::vector<Decision>> arrived(std::uint32_t worker, std::uint64_t, std::uint64_t) override {
    return std::vector<Decision>{{.applied = {worker}, .dropped = {}, .answered = {worker}}};
  }

  std::vector<std::uint32_t> go_on() override {
    std::vector<std::uint32_t> all(workers_);
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }

  void correct(at::Tensor& gradient, const at::Tensor& model, const at::Tensor& copy) const override {
    gradient.add_(gradient.square().mul_(model - copy), compensation_);
  }
  bool corrects() const override { return compensation_ > 0; }

 private:
  const std::size_t workers_;
  const double compensation_;
};

}  // namespace

protocol::Params<Async::Options> Async::params() {
  return protocol::Params<Options>()
      .integer("servers", &Options::servers, {.minimum = 1, .maximum = 1024},
               "Processes that hold the model, each some of its tensors.")
      .number("delay_compensation", &Options::delay_compensation, {.minimum = 0},
              "How much of the change of the model since a worker had it is reckoned with (DC-ASGD); 0: nothing.");
}

std::unique_ptr<servers::PushRule> Async::rule(const servers::RuleSetting& setting) const {
  return std::make_unique<OnArrival>(setting.clocks.size(), options_.delay_compensation);
}

}  // namespace weir::training
