#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training {

/// Gives an exchange the gradients of parameters, each as soon as the backward pass has completed it.
///
///     gradients.begin({step, epoch, learning_rate, vote});
///     loss.backward();
///     agreed = gradients.finish();      // then exchange.means() are the mean gradients
///
/// A step may have several backward passes, whose gradients add up. Then begin() comes before the last of them: in the
/// ones before, no gradient is complete yet, so nothing of it goes onto the wire. Who wants to change the gradients
/// before they are exchanged calls begin() after the last backward pass; then the two do not overlap.
///
/// Used by the compute thread.
class GradientTrigger {
 public:
  /// `parameters` are those of `exchange`: leaf tensors that require gradients. Gradients that they have are taken
  /// away. `exchange` must outlive this object, and no backward pass may run when it ends.
  GradientTrigger(Exchange& exchange, std::vector<NamedTensor> parameters);
  ~GradientTrigger();
  GradientTrigger(const GradientTrigger&) = delete;
  GradientTrigger& operator=(const GradientTrigger&) = delete;

  /// Must be called before the last backward pass of `step`, or after it.
  void begin(const Step& step);

  /// Must be called after the last backward pass: waits for the exchange, and takes the gradients away from the
  /// parameters. A parameter without a gradient counts as zero. Fails like Exchange::finish().
  Result<Exchange::Agreed> finish();

 private:
  class Hook;

  void complete(std::uint32_t parameter);

  Exchange& exchange_;
  const std::vector<NamedTensor> parameters_;
  std::vector<std::unique_ptr<Hook>> hooks_;  ///< by parameter
  std::vector<bool> given_;                   ///< by parameter
  bool last_pass_ = false;                    ///< gradients that become complete are those of the step
};

}  // namespace weir::training
