#pragma once

#include <cstdint>
#include <vector>

#include "protocol/traffic.hpp"
#include "training/exchange/traffic_account.hpp"
#include "training/models/model.hpp"

namespace weir::training::servers {

/// What a rank of a job with servers has moved, with the phases "push" and "answer". Used by the rank's thread. A
/// server counts an answer when it knows that it has arrived, and a worker reads its totals when its pushes have, so
/// that nothing is in them before it counts at the sockets.
class PushTraffic final : public TrafficAccount {
 public:
  /// `parameters`: of the whole model.
  explicit PushTraffic(std::vector<NamedTensor> parameters);

  /// Messages with bodies of so many bytes.
  void push_sent(std::uint64_t body_bytes);
  void push_received(std::uint64_t body_bytes);
  void answer_sent(std::uint64_t body_bytes);
  void answer_received(std::uint64_t body_bytes);

  /// What of these bodies is of a parameter.
  void tensor_sent(std::uint32_t parameter, std::uint64_t bytes) { tensors_[parameter].sent += bytes; }
  void tensor_received(std::uint32_t parameter, std::uint64_t bytes) { tensors_[parameter].received += bytes; }

  void count(protocol::TrafficTotals& totals) const override;

 private:
  const std::vector<NamedTensor> parameters_;
  protocol::ByteCounts pushes_;
  protocol::ByteCounts answers_;
  std::vector<protocol::ByteCounts> tensors_;  ///< by parameter
};

}  // namespace weir::training::servers
