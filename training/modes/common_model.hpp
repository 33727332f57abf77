#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.hpp"
#include "training/modes/mode.hpp"

namespace weir::training {

/// The model that all ranks had last in common, beside the one that this rank trains. In an exchange of both, the mean
/// of how much the ranks' models differ from it is added to it, and the ranks go on from there.
///
/// Owned by a mode, used by its compute thread. The ranks' models are equal when it is made.
class CommonModel {
 public:
  /// `replica` has joined and must outlive this object.
  explicit CommonModel(Replica& replica);

  /// Fails as Exchange::finish().
  Result<Exchange::Agreed> exchange(const Step& step);

 private:
  Exchange& exchange_;
  const std::vector<NamedTensor> trained_;
  std::vector<at::Tensor> common_;
  std::vector<at::Tensor> differences_;
};

/// When ranks that step by themselves exchange.
struct Rhythm {
  std::size_t batches = 1;                                          ///< of a step
  std::function<bool(std::uint64_t steps)> exchanges;               ///< when so many steps are done
  std::function<std::uint64_t(std::uint64_t steps)> rounds_before;  ///< how often in so many steps
};

/// Trains as Mode::train() says: each rank with an optimizer of its own, and a common model.
Result<bool> train_apart(Replica& replica, Progress& progress, const Rhythm& rhythm);

}  // namespace weir::training
