#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "compressors/catalog.hpp"
#include "protocol/traffic.hpp"
#include "training/exchange/agreement.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/coded_round.hpp"
#include "training/exchange/link_probe.hpp"
#include "training/exchange/planner.hpp"
#include "training/exchange/step.hpp"

namespace weir::training {

/// Decides how each bucket travels, and changes that while the training goes on. At the start all ranks measure what
/// messages, coding and copying take, and agree on the slowest rank's numbers, from which each of them works out the
/// same plans (planner.hpp). The plans that the model finds good are then tried for some steps each, and the one whose
/// steps were fastest on the slowest rank is followed. It is measured again from time to time: when its steps have
/// become much slower, when the compressor is in its warm-up, whose payloads become smaller, and now and then anyway,
/// all is measured and planned again. When the warm-up is over, all plans are tried anew. Which topologies a plan may
/// use, plans() says; split_gather and multi_hop are not among them. How the parameters are divided into buckets may
/// change with the plan, once the first steps have shown how long the computation takes.
///
/// All ranks must call start() once and before() before the same steps.
class AutoPlan {
 public:
  static constexpr std::string_view name = "auto";
  static constexpr std::string_view summary =
      "measures links and coding and chooses for each bucket topology and form, dense in 16 bits among them";

  /// Makes another compressor and memory like those that are trained with, for measuring.
  using MakeCompression = std::function<Result<compressors::Compression>()>;

  /// Measures the links: measure_links(), or what stands in for it.
  using MeasureLinks = std::function<Result<GroupLinks>(collectives::Fabric&)>;

  /// By which steps are timed.
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  /// `setting` must outlive this object.
  AutoPlan(collectives::Fabric& fabric, const RoundSetting& setting, MakeCompression make_compression,
           MeasureLinks measure_links, Now now = std::chrono::steady_clock::now);

  /// To be called before the first step. `layouts`: each a list of buckets of the same parameters, of which number
  /// `layout` is in use. `together`: as Situation. Returns whether it has communicated. Fails with what the group, the
  /// compressor and the memory fail with.
  Result<bool> start(const Step& step, std::span<const std::vector<Bucket>> layouts, std::size_t layout, bool together);

  /// To be called before each further step, when the one before is complete. `waited_seconds`: how long the compute
  /// thread waited for the exchange in that one. Returns whether it has communicated. Fails as start().
  Result<bool> before(const Step& step, double waited_seconds);

  /// From start() on: by bucket of layout().
  std::span<const Route> routes() const { return trials_[current_].plan.routes; }
  /// Which layout the next step has to be in.
  std::size_t layout() const { return trials_[current_].plan.layout; }
  /// The one that is not only on trial: with which a job goes on.
  std::size_t kept_layout() const { return kept_layout_; }

  /// Whether the plan is another one than when this was last asked.
  bool is_new() { return std::exchange(new_, false); }
  protocol::ExchangePlan describe() const;

 private:
  struct Trial {
    Plan plan;
    std::optional<double> measured_seconds;  ///< the median of its steps, on the slowest rank
  };

  Result<void> measure(const Step& step);
  Result<void> plan_trials();
  std::vector<Compared> compared_plans() const;
  Result<void> judge(const Step& step);
  Result<void> leave_warmup(const Step& step);
  void follow(std::size_t trial, std::uint64_t step, std::string reason);
  bool warms_up(const Step& step) const;

  collectives::Fabric& fabric_;
  const RoundSetting& setting_;
  const MakeCompression make_compression_;
  const MeasureLinks measure_links_;
  const Now now_;
  std::vector<std::vector<Bucket>> layouts_;
  std::size_t kept_layout_ = 0;         ///< of the last plan that was followed after trials; before, the first one
  std::vector<BucketLoad> parameters_;  ///< what each parameter asks for
  Situation situation_;
  std::vector<Trial> trials_;
  std::size_t current_ = 0;    ///< index in trials_
  bool settled_ = false;       ///< trying is over
  int slow_windows_ = 0;       ///< one after the other, in which the plan was slower than when it was chosen
  std::uint64_t windows_ = 0;  ///< since all was measured
  bool measured_in_warmup_ = false;

  // The steps of the window.
  std::chrono::steady_clock::time_point last_;  ///< when it began
  std::size_t skipped_ = 0;
  std::vector<double> steps_;
  std::vector<double> computations_;

  bool new_ = false;
  std::uint64_t since_step_ = 0;
  std::string reason_;
};

/// The routes of the buckets, without a reason.
protocol::ExchangePlan describe(std::span<const Route> routes, std::span<const Bucket> buckets,
                                std::span<const compressors::NamedTensor> parameters);

}  // namespace weir::training
