#include "training/servers/push_traffic.hpp"

#include <utility>

namespace weir::training::servers {
namespace {

constexpr auto wire_bytes = collectives::Communicator::wire_bytes;

}  // namespace

PushTraffic::PushTraffic(const collectives::Fabric& fabric, std::vector<NamedTensor> parameters)
    : fabric_(fabric), parameters_(std::move(parameters)), tensors_(parameters_.size()) {}

void PushTraffic::push_sent(std::uint64_t body_bytes) { pushes_.sent += wire_bytes(body_bytes); }
void PushTraffic::push_received(std::uint64_t body_bytes) { pushes_.received += wire_bytes(body_bytes); }
void PushTraffic::answer_sent(std::uint64_t body_bytes) { answers_.sent += wire_bytes(body_bytes); }
void PushTraffic::answer_received(std::uint64_t body_bytes) { answers_.received += wire_bytes(body_bytes); }

protocol::TrafficTotals PushTraffic::totals() const {
  protocol::TrafficTotals totals;
  totals.phases = {{"push", pushes_}, {"answer", answers_}};
  count_links(totals, fabric_);
  auto all = pushes_;
  all += answers_;
  count_tensors(totals, parameters_, tensors_, all);
  return totals;
}

}  // namespace weir::training::servers
