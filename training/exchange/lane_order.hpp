#pragma once

#include <cstddef>
#include <vector>

#include "collectives/loop.hpp"

namespace weir::training {

/// Lets the tasks of a loop pass one by one, in an order that is fixed beforehand: `co_await turn` of number n returns
/// when those before it have been through. All ranks have the same order, whatever is ready first.
class Turns {
 public:
  explicit Turns(collectives::Loop& loop) : loop_(loop) {}

  class Turn final : public collectives::Waiting {
   public:
    Turn(Turns& turns, std::size_t number) : number_(number) { turns.begin(*this); }

   private:
    friend class Turns;
    const std::size_t number_;
  };

  /// The task whose turn it is has finished.
  void pass() {
    ++next_;
    for (Turn& turn : waiting_) {
      if (turn.number_ == next_) return loop_.end(turn, {});
    }
  }

  /// Begins with number 0 again. Nobody may be waiting.
  void restart() { next_ = 0; }

 private:
  void begin(Turn& turn) {
    waiting_.push_back(turn);
    if (turn.number_ == next_) loop_.end(turn, {});
  }

  collectives::Loop& loop_;
  collectives::WaitingList<Turn> waiting_;
  std::size_t next_ = 0;
};

/// Where a bucket goes, and when it may.
struct LanePlace {
  std::size_t lane = 0;
  std::size_t turn = 0;  ///< among the buckets of the lane
};

/// The places of a step's buckets: the last one has the urgent lane for itself, the others share the other lanes.
inline std::vector<LanePlace> places_in_lanes(std::size_t buckets, std::size_t lanes) {
  std::vector<LanePlace> places;
  std::vector<std::size_t> buckets_of(lanes);
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const bool urgent = bucket + 1 == buckets || lanes == 1;
    const std::size_t lane = urgent ? 0 : 1 + bucket % (lanes - 1);
    places.push_back({.lane = lane, .turn = buckets_of[lane]++});
  }
  return places;
}

}  // namespace weir::training
