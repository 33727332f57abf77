#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/slist.hpp>
#include <cstdint>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/transports/in_process.hpp"

namespace weir::collectives {

struct Channel;

/// A piece of a message, or a goodbye, on its way in a simulated network.
struct SimulatedFrame : boost::intrusive::slist_base_hook<> {
  Channel* channel = nullptr;
  double due = 0;  ///< when it comes to where it goes next
  bool goodbye = false;
  Subject subject;
  OperationTag operation;
  std::uint64_t message_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool packed = false;
  std::uint64_t payload_bytes = 0;  ///< that travel: fewer than `bytes` if they are packed
  Bytes data;                       ///< empty if the network carries none

  std::uint64_t wire_bytes() const { return payload_bytes + Communicator::frame_header_bytes; }
  bool last() const { return offset + bytes == message_bytes; }
};

/// Frames one after the other.
using SimulatedFrames = boost::intrusive::slist<SimulatedFrame, boost::intrusive::cache_last<true>>;

struct AtPort;
struct Unclaimed;

/// The way from one rank to another in one lane.
struct Channel : boost::intrusive::list_base_hook<boost::intrusive::tag<AtPort>>,
                 boost::intrusive::list_base_hook<boost::intrusive::tag<Unclaimed>,
                                                  boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  Channel(std::uint32_t from_rank, std::uint32_t to_rank, std::uint32_t of_lane)
      : from(from_rank), to(to_rank), lane(of_lane) {}

  const std::uint32_t from;
  const std::uint32_t to;
  const std::uint32_t lane;
  bool at_port = false;  ///< waits for its turn to send
  bool left = false;     ///< the sender's goodbye has arrived
  bool working = false;  ///< the receiver combines a piece
  WaitingList<Send> sends;
  WaitingList<Receive> receives;  ///< those that name the sender
  Receive* current = nullptr;     ///< takes the message of which a piece has arrived
  SimulatedFrames arrived;
  std::uint64_t window_used = 0;
  double last_arrival = 0;
};

/// What carries the frames of a simulated network: its clock, the ports of its ranks, and what is on its way.
class SimulatedWire {
 public:
  /// Something that happens at a time, to an object.
  using Happen = void (*)(SimulatedWire& wire, void* what);

  SimulatedWire(const NetworkModel& network_model, std::uint32_t rank_count, std::uint32_t lane_count);
  virtual ~SimulatedWire();
  SimulatedWire(const SimulatedWire&) = delete;
  SimulatedWire& operator=(const SimulatedWire&) = delete;

  double now() const { return now_; }
  /// Has something happen at `time`, after all that was asked for earlier at the same time.
  void at(double time, Happen happen, void* what) { events_.push({time, ++order_, happen, what}); }
  /// Lets the next event happen. Returns false if there is none.
  bool next_event();

  Channel& channel(std::uint32_t from, std::uint32_t to, std::uint32_t lane);
  /// Null as long as nothing has asked for it.
  Channel* find(std::uint32_t from, std::uint32_t to, std::uint32_t lane) const {
    const auto& row = channels_[std::size_t{lane} * ranks + from];
    return row.empty() ? nullptr : row[to].get();
  }

  /// Something may be sent over `way`.
  void offer(Channel& way);
  /// Sends a goodbye after all that is on its way.
  void say_goodbye(Channel& way);
  /// Takes the first frame that has arrived over `way`; others may follow it.
  SimulatedFrame& take_first(Channel& way);
  /// Keeps the frame's memory for others.
  void give_back(SimulatedFrame& frame);
  /// The time at which `rank` will have spent `seconds` on computing, after what it has to compute already.
  double occupy(std::uint32_t rank, double seconds);
  /// What the receiver of a frame computes before it has taken it.
  double seconds_to_take(const SimulatedFrame& frame, bool combines) const;

  const NetworkModel model;
  const std::uint32_t ranks;
  const std::uint32_t lanes;

 protected:
  /// One more frame has arrived over `way`, or the goodbye.
  virtual void arrived(Channel& way) = 0;
  /// All of a message has been handed over.
  virtual void handed_over(Send& send) = 0;
  virtual void count_sent(const Channel& way, std::uint64_t bytes) = 0;

 private:
  struct Event {
    double time;
    std::uint64_t order;
    Happen happen;
    void* what;

    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;  // the earliest is the greatest
    }
  };

  /// A rank's way out and in.
  struct Port {
    double free_at = 0;          ///< when the frame that leaves has left
    bool will_be_woken = false;  ///< at that time, because more waits
    SimulatedFrames flying;      ///< have left, the first first. Only the first is among the events
    double ingress_free_at = 0;
    SimulatedFrames entering;  ///< have come, and wait for those before them. As above
    double processor_free_at = 0;
    /// By lane, the most urgent first: what may send, each when it is its turn.
    std::vector<boost::intrusive::list<
        Channel, boost::intrusive::base_hook<boost::intrusive::list_base_hook<boost::intrusive::tag<AtPort>>>>>
        waiting;
  };

  bool sendable(const Channel& way) const;
  void send_next(Port& port);
  void transmit(Port& port, Channel& way);
  void pack(const Send& send, SimulatedFrame& frame);
  void send_off(Port& port, SimulatedFrame& frame);
  static void reach_first(SimulatedWire& wire, void* port);
  void reach(SimulatedFrame& frame);
  static void let_first_in(SimulatedWire& wire, void* port);
  void arrive(SimulatedFrame& frame);
  SimulatedFrame& new_frame();
  double duration_of(const SimulatedFrame& frame) const {
    return frame.goodbye ? 0 : static_cast<double>(frame.wire_bytes()) / model.bytes_per_second;
  }

  std::vector<std::vector<std::unique_ptr<Channel>>> channels_;  ///< by lane and sender, then by receiver
  std::vector<Port> ports_;
  std::vector<std::unique_ptr<SimulatedFrame>> frames_;
  SimulatedFrames unused_frames_;
  std::mt19937_64 random_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;
};

}  // namespace weir::collectives
