#include "collectives/communicator.hpp"

#include "base/errc.hpp"

namespace weir::collectives {

Error told_of(const Blame& blame) {
  const std::string rank = "rank " + std::to_string(blame.rank);
  if (!blame.about) return {Errc::cancelled, rank + " has given up"};
  const std::string about = to_string(*blame.about);
  if (blame.fault == Blame::Fault::gives_up) return {Errc::malformed, rank + " has given up " + about};
  return {Errc::malformed, rank + " and rank " + std::to_string(blame.with) + " do not agree about " + about};
}

Task<> carry_out(Communicator& group, Operation operation, Task<> task) {
  struct UnderWay {
    ~UnderWay() { group.end_operation(); }
    Communicator& group;
  };
  group.begin_operation(operation);
  const UnderWay under_way{group};
  auto done = co_await task;
  if (!done && done.error().code == Errc::invalid_argument) done = done.error().within(to_string(operation.about));
  if (!done && done.error().code != Errc::peer_lost) {
    group.abort(done.error(), Blame::of_giving_up(group.rank(), operation.about));
  }
  co_return done;
}

Traffic Communicator::traffic() const {
  Traffic all;
  for (std::uint32_t other = 0; other < size(); ++other) all += traffic_with(other);
  return all;
}

}  // namespace weir::collectives
