#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/head.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/training_shape.hpp"

/// Estimates and checks that are made before a job runs. Pure functions.
namespace weir::cluster {

/// Estimates what one exchange costs a worker, in bytes: {"parameters", "bytes_dense", "bytes_sent"}, null where
/// unknown. bytes_dense is for the dense ring: 2 (P-1)/P of the gradient. For bytes_sent, tensors that the compressor
/// leaves out go through a dense ring; the others take the bits per entry that the catalog states for the compressor
/// with its default parameters. With an automatic topology bytes_sent is unknown: the workers decide what is encoded.
/// It also is in modes whose workers exchange with neighbours or servers.
nlohmann::json round_cost(const protocol::JobSpec& spec, const protocol::TrainingShape* shape,
                          const nlohmann::json& catalog);

/// In one of how many steps the workers exchange the same tensor, once they make steps of their own. 1 if they do in
/// each, and if that is not a number of steps.
std::uint64_t period_of(const protocol::JobSpec& spec);

/// After which steps of a training the workers exchange the same tensor: each of the first ones, then one in a period.
/// Exchanges out of turn, as at the end of a training, are left out.
struct Exchanges {
  std::uint64_t in_each = 0;  ///< of so many steps
  std::uint64_t period = 1;

  std::uint64_t made_by(std::uint64_t step) const {
    return step <= in_each ? step : in_each + (step - in_each) / period;
  }
  /// How many steps are done when so many have been made.
  double steps_of(double exchanges) const {
    const auto first = static_cast<double>(in_each);
    return exchanges <= first ? exchanges : first + (exchanges - first) * static_cast<double>(period);
  }
};

/// Returns nothing if the spec does not say that: where workers make as many steps as they have time for.
std::optional<Exchanges> exchanges_of(const protocol::JobSpec& spec, std::uint64_t steps_per_epoch,
                                      const nlohmann::json& catalog);

/// The number of steps of the training, of an epoch, and of the part of the training in which the compressor warms up.
struct StepCount {
  std::uint64_t total = 0;
  std::uint64_t per_epoch = 0;
  std::uint64_t warmup = 0;  ///< 0, too, if it lasts for a number of exchanges, and exchanges_of() has nothing
};

/// The parameters of compressors that say how long they warm up, and how. What they keep between steps depends on none
/// of them.
inline constexpr std::array<std::string_view, 4> warmup_params = {"warmup_epochs", "warmup_dense", "warmup_schedule",
                                                                  "start_step"};

/// Returns nothing if the number of examples is not known.
std::optional<StepCount> count_steps(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                     const nlohmann::json& catalog);

/// Warnings for a valid spec that will hardly do what its author wants.
std::vector<Warning> warnings_of(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                 const nlohmann::json& catalog);

/// Problems with which no worker could start: a shard without the examples of a whole step, too few classes for a
/// partition by class, or an optimizer's group without parameters.
std::vector<protocol::Problem> problems_of(const protocol::JobSpec& spec, const protocol::TrainingShape& shape);

}  // namespace weir::cluster
