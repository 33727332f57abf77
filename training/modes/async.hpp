#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "training/servers/served_mode.hpp"

namespace weir::training {

/// Asynchronous SGD: a server applies each push when it comes and answers at once. A worker's gradient is then of a
/// model that others have changed meanwhile. With `delay_compensation` lambda above 0 the server adds
/// lambda * g * g * (w - w_worker) to it, where w_worker is what that worker has: the gradient at w to first order,
/// with the diagonal of g g^T in the place of the Hessian (DC-ASGD, Zheng et al., ICML 2017).
///
/// A push moves the model by 1 / workers of the learning rate, so that the rate, weight decay and the schedule mean
/// what they mean in sync.
class Async final : public servers::ServedMode {
 public:
  static constexpr std::string_view type_name = "async";
  static constexpr std::string_view summary = "servers apply each worker's gradient when it comes";

  struct Options {
    std::int64_t servers = 1;
    double delay_compensation = 0;
  };
  static protocol::Params<Options> params();
  explicit Async(Options options) : options_(options) {}

  std::unique_ptr<servers::PushRule> rule(const servers::RuleSetting& setting) const override;

 private:
  const Options options_;
};

}  // namespace weir::training
