#pragma once

#include <cstddef>

#include "collectives/loop.hpp"

namespace weir::actors {

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

}  // namespace weir::actors
