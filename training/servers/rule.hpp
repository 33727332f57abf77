#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace weir::training::servers {

/// What a server does next, in this order.
struct Decision {
  std::vector<std::uint32_t> applied;   ///< workers whose pushes, as one mean, make the next version; ascending
  std::vector<std::uint32_t> dropped;   ///< whose pushes come too late
  std::vector<std::uint32_t> answered;  ///< who may go on
  bool tells = false;                   ///< the other servers are told of it
};

/// When a server applies a push and when it answers: all that tells the modes with servers from each other. Each server
/// has one, which only its thread uses; it keeps no tensors. A worker has one push at most that is not answered.
class PushRule {
 public:
  virtual ~PushRule() = default;

  /// A push of `worker` for `version` has come; this server has made `present` versions. Fails with: malformed.
  virtual Result<std::vector<Decision>> arrived(std::uint32_t worker, std::uint64_t version, std::uint64_t present) = 0;

  /// The first server has decided that the pushes of `members`, ascending, make up the version after `version`. Fails
  /// with: malformed (here each server decides for itself).
  virtual Result<std::vector<Decision>> decided(std::uint64_t version, std::span<const std::uint32_t> members);

  /// The first server has dropped the push of `worker`, and answered with `version`. Fails as decided().
  virtual Result<std::vector<Decision>> late(std::uint64_t version, std::uint32_t worker);

  /// The workers are to halt: nobody's answer may wait for the push of another.
  virtual std::vector<Decision> halt() { return {}; }
  /// All have halted: returns who may go on. Those kept back are in a later decision.
  virtual std::vector<std::uint32_t> go_on() = 0;

  /// Changes the gradient of a push that is applied by itself: `copy` is what its worker had of `model`.
  virtual void correct(at::Tensor& /*gradient*/, const at::Tensor& /*model*/, const at::Tensor& /*copy*/) const {}
  virtual bool corrects() const { return false; }
};

/// What a rule begins with.
struct RuleSetting {
  std::vector<std::uint64_t> clocks;  ///< by worker: pushes so far
  std::uint64_t version = 0;          ///< how many versions there are
  bool first = true;                  ///< of the first server, which decides where one has to
};

}  // namespace weir::training::servers
