#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "training/modes/mode.hpp"
#include "training/state_server/state_server.hpp"

namespace weir::training {

/// ESync (Li et al., IEEE TSC 2020): between two exchanges each worker makes as many steps with its own optimizer as it
/// has time for until the slowest one has made one; a state server, the rank behind the workers, tells it how many.
/// Then all exchange by how much their models differ from the last common one, and `global_lr` times what was made of
/// the differences is added to that. Statistics, where they are exchanged, are averaged.
///
/// A worker of many steps differs by more, and would have more of a say in the common model than one of few, whose
/// examples may be of other classes. So worker w, of t(w) steps, sends its difference d(w) over t(w)^p, and the common
/// model moves by
///
///     global_lr * mean(t^p) * mean(d / t^p)        p: `normalization`; means over the workers
///
/// With p = 0 that is ESync as published, the mean of the differences; with p = 1 it is FedNova (Wang et al., NeurIPS
/// 2020), where each counts as by the mean of its steps. Steps of one round grow less apart than their number, the more
/// so the more the examples differ; hence the root by default.
///
/// A worker goes through its own share of the examples at its own pace. The job's steps are counted in examples: L
/// local steps of all P workers together are L / P steps of the job, rounded down, on which the workers agree after
/// each exchange. So epochs, the end of the training, learning rates and whatever is due every so many steps mean what
/// they do in other modes; within a round the learning rate is that of its beginning. In the last round as many local
/// steps are made as are left, but one by each worker at least.
///
/// With `adapt_compression` the state server also tells each worker what share to send of the entries that its
/// compressor chooses: less over a slow link (ShareRule).
///
/// The model of the training is the common one, and every round leaves one.
class ESync final : public Mode {
 public:
  static constexpr std::string_view type_name = "esync";
  static constexpr std::string_view summary =
      "workers take as many steps by themselves as the slowest leaves them time for, then average their models";
  static constexpr Exchanged type_exchanges = Exchanged::differences;
  static constexpr std::array roles = {protocol::RoleNeed{.role = protocol::Role::state_server}};

  struct Options {
    std::optional<double> local_lr = {};
    double global_lr = 1;
    double normalization = 0.5;
    bool adapt_compression = false;
  };
  static protocol::Params<Options> params();

  /// What a test may have in the place of clocks and of a state server.
  struct Instruments {
    std::function<double()> now = {};         ///< seconds on this worker's clock; by default a monotonic one
    std::unique_ptr<StepGrants> grants = {};  ///< by default those of the rank behind the workers
  };
  explicit ESync(Options options) : ESync(options, Instruments()) {}
  ESync(Options options, Instruments instruments);

  Result<bool> train(Replica& replica, Progress& progress) override;
  Result<void> check(const protocol::JobSpec& spec, std::uint32_t world,
                     const compressors::Compression& compression) const override;
  Result<void> join(Replica& replica, collectives::Fabric& fabric) override;
  ModeState save() const override;
  Result<void> restore(Replica& replica, std::span<const NamedTensor> common,
                       std::span<const NamedTensor> own) override;
  Exchanged exchanges() const override { return type_exchanges; }

 private:
  class Training;

  /// What is counted over the whole job.
  struct Counts {
    std::uint64_t steps_of_all = 0;  ///< local steps
    std::uint64_t rounds = 0;
    std::uint64_t steps_of_own = 0;  ///< of this worker
  };

  const Options options_;
  const std::function<double()> now_;
  std::unique_ptr<StepGrants> grants_;
  Counts counts_;
};

}  // namespace weir::training
