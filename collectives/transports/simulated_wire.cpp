#include "collectives/transports/simulated_wire.hpp"

#include <algorithm>
#include <cmath>

namespace weir::collectives {

SimulatedWire::SimulatedWire(const NetworkModel& network_model, std::uint32_t rank_count, std::uint32_t lane_count)
    : model(network_model),
      ranks(rank_count),
      lanes(lane_count),
      channels_(std::size_t{rank_count} * lane_count),
      ports_(rank_count),
      random_(network_model.seed) {
  using Waiting = decltype(Port::waiting);
  for (Port& port : ports_) port.waiting = Waiting(lanes);
}

SimulatedWire::~SimulatedWire() {
  for (Port& port : ports_) {
    for (auto& lane : port.waiting) lane.clear();
    port.flying.clear();
    port.entering.clear();
  }
  for (auto& row : channels_) {
    for (auto& way : row) {
      if (way) way->arrived.clear();
    }
  }
  unused_frames_.clear();
}

bool SimulatedWire::next_event() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.time);
  event.happen(*this, event.what);
  return true;
}

Channel& SimulatedWire::channel(std::uint32_t from, std::uint32_t to, std::uint32_t lane) {
  auto& row = channels_[std::size_t{lane} * ranks + from];
  if (row.empty()) row.resize(ranks);
  if (!row[to]) row[to] = std::make_unique<Channel>(from, to, lane);
  return *row[to];
}

double SimulatedWire::occupy(std::uint32_t rank, double seconds) {
  double& free_at = ports_[rank].processor_free_at;
  return free_at = std::max(free_at, now_) + seconds;
}

double SimulatedWire::seconds_to_take(const SimulatedFrame& frame, bool combines) const {
  const double per_byte =
      (frame.packed ? model.packing.unpack_seconds_per_byte : 0) + (combines ? model.combine_seconds_per_byte : 0);
  return per_byte * static_cast<double>(frame.bytes);
}

bool SimulatedWire::sendable(const Channel& way) const {
  if (way.sends.empty() || way.window_used >= model.window_bytes) return false;
  const Send& send = way.sends.front();
  const auto bytes = std::min<std::uint64_t>(send.message.size() - send.sent_bytes, Communicator::piece_bytes_max);
  return send.ready_bytes >= send.sent_bytes + bytes;
}

void SimulatedWire::offer(Channel& way) {
  if (way.at_port || !sendable(way)) return;
  Port& port = ports_[way.from];
  port.waiting[way.lane].push_back(way);
  way.at_port = true;
  send_next(port);
}

/// Puts frames of a rank on the wire until one of them keeps its port busy.
void SimulatedWire::send_next(Port& port) {
  while (true) {
    const auto lane = std::ranges::find_if(port.waiting, [](const auto& waiting) { return !waiting.empty(); });
    if (lane == port.waiting.end() || port.will_be_woken) return;
    if (port.free_at > now_) {
      port.will_be_woken = true;
      const auto wake = [](SimulatedWire& wire, void* what) {
        Port& woken = *static_cast<Port*>(what);
        woken.will_be_woken = false;
        wire.send_next(woken);
      };
      return at(port.free_at, wake, &port);
    }
    Channel& way = lane->front();
    lane->pop_front();
    way.at_port = false;
    if (!sendable(way)) continue;
    transmit(port, way);
    if (way.at_port || !sendable(way)) continue;
    // The others of the lane get their turn first.
    lane->push_back(way);
    way.at_port = true;
  }
}

void SimulatedWire::transmit(Port& port, Channel& way) {
  Send& send = way.sends.front();
  const std::uint64_t rest = send.message.size() - send.sent_bytes;
  SimulatedFrame& frame = new_frame();
  frame.channel = &way;
  frame.subject = send.subject;
  frame.operation = send.operation;
  frame.message_bytes = send.message.size();
  frame.offset = send.sent_bytes;
  frame.bytes = std::min<std::uint64_t>(rest, Communicator::piece_bytes_max);
  frame.payload_bytes = frame.bytes;
  pack(send, frame);
  if (model.carries_data) append(frame.data, send.message.subspan(frame.offset, frame.bytes));
  send.begun = true;
  send.sent_bytes += frame.bytes;
  count_sent(way, frame.wire_bytes());
  way.window_used += frame.wire_bytes();
  if (frame.last()) handed_over(send);
  port.free_at = now_ + duration_of(frame);
  send_off(port, frame);
}

/// A sender packs while what it has packed before is on the wire: that takes its time, and not the port's.
void SimulatedWire::pack(const Send& send, SimulatedFrame& frame) {
  if (!send.element) return;
  const double share = usual_packed_share(*send.element);
  if (!model.packing.are_worth(share, 1 / model.bytes_per_second)) return;
  frame.packed = true;
  frame.payload_bytes = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(frame.bytes)));
  occupy(frame.channel->from, model.packing.pack_seconds_per_byte * static_cast<double>(frame.bytes));
}

void SimulatedWire::say_goodbye(Channel& way) {
  SimulatedFrame& frame = new_frame();
  frame.channel = &way;
  frame.goodbye = true;
  send_off(ports_[way.from], frame);
}

/// The frame leaves when the port is free again.
void SimulatedWire::send_off(Port& port, SimulatedFrame& frame) {
  frame.due = std::max(now_, port.free_at) + model.latency_seconds;
  if (model.jitter_seconds > 0) {
    Channel& way = *frame.channel;
    frame.due += std::uniform_real_distribution(0.0, model.jitter_seconds)(random_);
    frame.due = way.last_arrival = std::max(frame.due, way.last_arrival);  // one link keeps its order
    const auto reached = [](SimulatedWire& wire, void* what) { wire.reach(*static_cast<SimulatedFrame*>(what)); };
    return at(frame.due, reached, &frame);
  }
  if (port.flying.empty()) at(frame.due, reach_first, &port);
  port.flying.push_back(frame);
}

void SimulatedWire::reach_first(SimulatedWire& wire, void* what) {
  Port& port = *static_cast<Port*>(what);
  SimulatedFrame& frame = port.flying.front();
  port.flying.pop_front();
  if (!port.flying.empty()) wire.at(port.flying.front().due, reach_first, &port);
  wire.reach(frame);
}

/// A frame has come to the port of its receiver, where it may have to wait for frames of other ranks.
void SimulatedWire::reach(SimulatedFrame& frame) {
  Port& port = ports_[frame.channel->to];
  port.ingress_free_at = std::max(now_, port.ingress_free_at + duration_of(frame));
  if (port.entering.empty() && port.ingress_free_at <= now_) return arrive(frame);
  frame.due = port.ingress_free_at;
  if (port.entering.empty()) at(frame.due, let_first_in, &port);
  port.entering.push_back(frame);
}

void SimulatedWire::let_first_in(SimulatedWire& wire, void* what) {
  Port& port = *static_cast<Port*>(what);
  SimulatedFrame& frame = port.entering.front();
  port.entering.pop_front();
  if (!port.entering.empty()) wire.at(port.entering.front().due, let_first_in, &port);
  wire.arrive(frame);
}

void SimulatedWire::arrive(SimulatedFrame& frame) {
  Channel& way = *frame.channel;
  if (frame.goodbye) {
    way.left = true;
    give_back(frame);
  } else {
    way.arrived.push_back(frame);
  }
  arrived(way);
}

SimulatedFrame& SimulatedWire::new_frame() {
  if (unused_frames_.empty()) return *frames_.emplace_back(std::make_unique<SimulatedFrame>());
  SimulatedFrame& frame = unused_frames_.front();
  unused_frames_.pop_front();
  return frame;
}

SimulatedFrame& SimulatedWire::take_first(Channel& way) {
  SimulatedFrame& frame = way.arrived.front();
  way.arrived.pop_front();
  way.window_used -= frame.wire_bytes();
  offer(way);
  return frame;
}

void SimulatedWire::give_back(SimulatedFrame& frame) {
  frame.data.clear();
  frame.goodbye = false;
  frame.packed = false;
  unused_frames_.push_front(frame);
}

}  // namespace weir::collectives
