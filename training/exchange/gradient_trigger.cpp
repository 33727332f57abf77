#include "training/exchange/gradient_trigger.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <utility>

namespace weir::training {
namespace {

/// Calls a function when an autograd node has run.
class PostHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  const std::function<void()> call_;
};

}  // namespace

/// The autograd node that accumulates a parameter's gradient. A parameter holds only a weak reference to it: this
/// object keeps it, and the hook on it, alive.
class GradientTrigger::Hook {
 public:
  Hook(const at::Tensor& parameter, std::function<void()> call)
      : accumulator_(torch::autograd::impl::grad_accumulator(parameter)),
        key_(accumulator_->add_post_hook(std::make_unique<PostHook>(std::move(call)))) {}
  ~Hook() { accumulator_->del_post_hook(key_); }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

 private:
  const std::shared_ptr<torch::autograd::Node> accumulator_;
  const std::uintptr_t key_;
};

GradientTrigger::GradientTrigger(Exchange& exchange, std::vector<NamedTensor> parameters)
    : exchange_(exchange), parameters_(std::move(parameters)), given_(parameters_.size()) {
  for (std::uint32_t p = 0; p < parameters_.size(); ++p) {
    at::Tensor(parameters_[p].tensor).mutable_grad().reset();
    hooks_.push_back(std::make_unique<Hook>(parameters_[p].tensor, [this, p] { complete(p); }));
  }
}

GradientTrigger::~GradientTrigger() = default;

void GradientTrigger::begin(const Step& step) {
  exchange_.begin(step);
  given_.assign(parameters_.size(), false);
  last_pass_ = true;
}

void GradientTrigger::complete(std::uint32_t parameter) {
  if (!last_pass_ || given_[parameter]) return;
  given_[parameter] = true;
  exchange_.give(parameter, parameters_[parameter].tensor.grad());
}

Result<Exchange::Agreed> GradientTrigger::finish() {
  last_pass_ = false;
  for (std::uint32_t p = 0; p < parameters_.size(); ++p) {
    if (!given_[p]) exchange_.give(p, parameters_[p].tensor.grad());  // of an earlier pass, or none
  }
  auto agreed = exchange_.finish();
  if (!agreed) return agreed;
  for (const auto& parameter : parameters_) at::Tensor(parameter.tensor).mutable_grad().reset();
  return agreed;
}

}  // namespace weir::training
