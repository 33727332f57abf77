#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "training/datasets/loader.hpp"
#include "training/modes/loss_copy.hpp"
#include "training/modes/mode.hpp"
#include "training/modes/slowdown.hpp"

namespace weir::training {

/// What ends a training whose numbers are lost, and what to try instead; `seen` says what showed it.
Error diverged(const std::string& seen);

/// The forward and backward passes of one worker: they leave the gradient of the mean loss over the batches of a step
/// with the parameters. Each batch is prepared while the one before is in use.
class Passes {
 public:
  struct Plan {
    std::size_t batches = 1;                                              ///< of a step
    std::uint64_t first_step = 0;                                         ///< of this worker, whose batches come first
    std::uint64_t steps_end = std::numeric_limits<std::uint64_t>::max();  ///< no batches of it are prepared
  };
  /// From the replica's present step to its last.
  static Plan all_steps(const Replica& replica, std::size_t batches = 1);

  /// `replica` must outlive this object.
  Passes(Replica& replica, const Plan& plan);
  /// With another clock than the job's slowdown would have.
  Passes(Replica& replica, const Plan& plan, Slowdown slowdown);

  /// Does all passes of the next step. `before_last` is called before the last backward pass, after which
  /// gradients are complete. Returns the mean loss. Fails with: invalid_argument (the loss became NaN or infinite),
  /// exhausted (the device's memory). On the processor a loss that is not finite ends the step before its backward
  /// pass. On a device that pass has been begun by then, so that the device need not wait for the host; what
  /// `before_last` has begun has to be ended by the caller, and an exchange sends nothing that is not finite.
  Result<double> run(double learning_rate, const std::function<void()>& before_last = {});

 private:
  template <class Work>
  Result<void> within_memory(Work work) const;
  void wait_for_device();
  Batch take(std::uint64_t step, std::size_t number);
  void ask(std::uint64_t step, std::size_t number);

  Replica& replica_;
  const std::size_t batches_;
  const std::uint64_t steps_end_;
  std::uint64_t step_;
  const at::Tensor share_;  ///< of a batch in the mean
  Slowdown slowdown_;
  Loader loader_;
  std::optional<LossCopy> loss_copy_;  ///< of a device
};

/// The gradients that the parameters of a model have, in their order; undefined where they have none.
std::vector<at::Tensor> gradients_of(const Model& model);

}  // namespace weir::training
