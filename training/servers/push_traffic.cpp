#include "training/servers/push_traffic.hpp"

#include <utility>

#include "collectives/communicator.hpp"

namespace weir::training::servers {
namespace {

constexpr auto wire_bytes = collectives::Communicator::wire_bytes;

}  // namespace

PushTraffic::PushTraffic(std::vector<NamedTensor> parameters)
    : parameters_(std::move(parameters)), tensors_(parameters_.size()) {}

void PushTraffic::push_sent(std::uint64_t body_bytes) { pushes_.sent += wire_bytes(body_bytes); }
void PushTraffic::push_received(std::uint64_t body_bytes) { pushes_.received += wire_bytes(body_bytes); }
void PushTraffic::answer_sent(std::uint64_t body_bytes) { answers_.sent += wire_bytes(body_bytes); }
void PushTraffic::answer_received(std::uint64_t body_bytes) { answers_.received += wire_bytes(body_bytes); }

void PushTraffic::count(protocol::TrafficTotals& totals) const {
  totals.phases.push_back({"push", pushes_});
  totals.phases.push_back({"answer", answers_});
  auto all = pushes_;
  all += answers_;
  count_tensors(totals, parameters_, tensors_, all);
}

}  // namespace weir::training::servers
