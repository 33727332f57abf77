#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/training.hpp"
#include "training/length.hpp"
#include "training/progress.hpp"

namespace weir::actors {

/// What a rank does in a job. Made when it is prepared; used by the rank's compute thread, in the order of these
/// functions.
class Role {
 public:
  virtual ~Role() = default;

  /// Takes the state from a checkpoint of the same job. Fails with: malformed, unsupported, conflict.
  virtual Result<void> restore(const Segment& checkpoint) = 0;

  /// Joins the group, which must outlive this object. Blocks. Fails with: conflict, and with what the group fails with.
  virtual Result<void> join(collectives::Fabric& group) = 0;

  /// Does it to the end, and gives `progress` the last state to keep and the last model to evaluate. Blocks. Returns
  /// whether all steps are done.
  virtual Result<bool> run(training::Progress& progress) = 0;

  virtual std::uint64_t step() const = 0;
  virtual std::uint64_t steps_total() const = 0;
  virtual std::uint64_t parameters() const = 0;  ///< trained scalars of the model
  /// Whether it is this rank that gives models to evaluate.
  virtual bool holds_model() const = 0;
  /// Of what this rank sends.
  virtual training::WarmupLength warmup() const { return {}; }
  /// What this rank has moved, by phase and tensor; nothing where neither is told apart.
  virtual const training::TrafficAccount* traffic() const { return nullptr; }
};

/// Fails with: invalid_argument, not_found, malformed, io.
using MakeRole =
    std::function<Result<std::unique_ptr<Role>>(const protocol::JobSpec& spec, const protocol::Assignment& assignment)>;

/// A role whose class derives from Role and has such a make().
template <class T>
MakeRole role_of() {
  return
      [](const protocol::JobSpec& spec, const protocol::Assignment& assignment) { return T::make(spec, assignment); };
}

}  // namespace weir::actors
