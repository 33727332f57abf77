#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "training/modes/common_model.hpp"
#include "training/modes/mode.hpp"

namespace weir::training {

/// DiLoCo (Douillard et al. 2023): every rank makes `period` steps with the job's optimizer, the inner one. By how much
/// it has come away from the common model is an outer gradient, of which an outer optimizer, SGD with Nesterov
/// momentum, applies the mean to the common model; the ranks go on from there. What they send goes through the
/// compressor and the memory: sparse with a residual that decays, this is SparseLoCo (Sarfi et al. 2025).
///
/// With `fragments` F (Streaming DiLoCo, Douillard et al. 2025) the model is cut into F parts of consecutive tensors,
/// and part f is exchanged `period` f / F steps later than part 0. With `delay` its result is applied that many steps
/// after the exchange has begun, and training goes on meanwhile. A rank then keeps the share `merge` of what its own
/// parameters, which have gone on, differ from the common ones by.
///
/// The model of the training is the common one. It is evaluated and saved where an exchange ends and none is under way.
/// At the end all parts are exchanged once more. Where compression applies to models, the ranks exchange statistics,
/// too: they are averaged, without the outer optimizer, and belong to the last parts.
class DiLoCo final : public Mode {
 public:
  static constexpr std::string_view type_name = "diloco";
  static constexpr std::string_view summary =
      "workers take many steps by themselves; an optimizer with momentum applies the mean of where they went";
  static constexpr Exchanged type_exchanges = Exchanged::differences;

  struct Options {
    std::int64_t period = 100;
    double outer_lr = 0.7;
    double outer_momentum = 0.9;
    std::int64_t fragments = 1;
    std::int64_t delay = 0;
    double merge = 0.5;
  };
  static protocol::Params<Options> params();
  /// Fails with: invalid_argument (more fragments than steps in a period, or a delay that leads into the next
  /// exchange).
  static Result<std::unique_ptr<Mode>> make(Options options);
  explicit DiLoCo(Options options);
  ~DiLoCo() override;

  Result<bool> train(Replica& replica, Progress& progress) override;
  Result<void> join(Replica& replica, collectives::Fabric& fabric) override;
  std::vector<std::uint32_t> groups(std::span<const NamedTensor> tensors) const override;
  ModeState save() const override;
  Result<void> restore(Replica& replica, std::span<const NamedTensor> common,
                       std::span<const NamedTensor> own) override;

  Exchanged exchanges() const override { return type_exchanges; }
  bool own_models() const override { return true; }

 private:
  class Training;
  struct Outer;

  std::optional<std::uint32_t> due_after(std::uint64_t steps) const;
  std::uint64_t first_exchange(std::uint32_t fragment) const;

  const Options options_;
  std::unique_ptr<Outer> outer_;  ///< from restore() or join() on
};

}  // namespace weir::training
