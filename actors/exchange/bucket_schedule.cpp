#include "actors/exchange/bucket_schedule.hpp"

#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "collectives/topologies/catalog.hpp"

namespace weir::actors {
namespace {

using collectives::Subject;
using collectives::Task;
using compressors::Reduction;
using protocol::Activity;

/// The parts of a message's subject that one operation of a bucket may use.
constexpr std::uint32_t parts_per_operation = 1 << 16;

Error of_bucket(const Error& error, std::size_t bucket) { return error.within("bucket " + std::to_string(bucket)); }

}  // namespace

class BucketSchedule::Gradients final : public collectives::Waiting {};

/// Where a bucket goes, and what its task waits for.
struct BucketSchedule::Place {
  std::size_t lane = 0;
  std::size_t turn = 0;  ///< among the buckets of the lane
  bool ready = false;
  Gradients* awaited = nullptr;
};

BucketSchedule::BucketSchedule(collectives::Fabric& fabric, const collectives::TopologyChoice& topology,
                               std::vector<BucketRound>& rounds, CodecThread& codec, StepTrace& trace, Ended ended)
    : fabric_(fabric), rounds_(rounds), codec_(codec), trace_(trace), ended_(std::move(ended)), places_(rounds.size()) {
  const auto* type = collectives::find_topology(topology.name);
  ensure(type != nullptr && type->fits(fabric.size()), "a topology that the job was checked for");
  for (std::uint32_t lane = 0; lane < fabric.lanes(); ++lane) {
    collectives_.push_back(type->make(fabric.lane(lane), topology));
    turns_.emplace_back(fabric.thread().loop());
  }
  std::vector<std::size_t> buckets_of(fabric.lanes());
  for (std::size_t bucket = 0; bucket < rounds.size(); ++bucket) {
    const bool urgent = bucket + 1 == rounds.size() || fabric.lanes() == 1;
    Place& place = places_[bucket];
    place.lane = urgent ? 0 : 1 + bucket % (fabric.lanes() - 1);
    place.turn = buckets_of[place.lane]++;
  }
  tasks_.reserve(rounds.size());
}

BucketSchedule::~BucketSchedule() = default;

void BucketSchedule::begin(const Step& step) {
  if (failed_) return;
  step_ = step;
  trace_.begin();
  left_ = rounds_.size();
  for (Turns& turns : turns_) turns.restart();
  for (Place& place : places_) place.ready = false;
  tasks_.clear();
  for (std::size_t bucket = 0; bucket < rounds_.size(); ++bucket) tasks_.push_back(exchange(bucket));
  for (auto& task : tasks_) task.start();
}

void BucketSchedule::ready(std::size_t bucket) {
  Place& place = places_[bucket];
  place.ready = true;
  if (place.awaited != nullptr) fabric_.thread().loop().end(*std::exchange(place.awaited, nullptr), {});
}

Task<> BucketSchedule::exchange(std::size_t bucket) {
  Place& place = places_[bucket];
  if (!place.ready) {
    Gradients complete;
    place.awaited = &complete;
    (void)co_await complete;
  }
  const auto done = co_await pass_through(bucket);
  if (failed_) co_return done;
  failed_ = !done;
  if (failed_ || --left_ == 0) ended_(done, done ? trace_.times() : PhaseTimes());
  co_return done;
}

Task<> BucketSchedule::pass_through(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  const Place& place = places_[bucket];
  Computation first(codec_, [&]() -> Result<void> {
    round.begin(step_);
    const StepTrace::Span span(trace_, bucket, Activity::encode, round.passes().empty() ? 0 : 1);
    if (auto gathered = round.gather_dense(); !gathered) return gathered;
    return round.passes().empty() ? Result<void>() : round.encode(0);
  });
  if (auto done = co_await first; !done) co_return done.error();

  Turns& turns = turns_[place.lane];
  Turns::Turn turn(turns, place.turn);
  {
    const StepTrace::Span span(trace_, bucket, Activity::wait, 0, place.lane);
    if (auto mine = co_await turn; !mine) co_return mine.error();
  }
  auto& collective = *collectives_[place.lane];
  Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
  if (!round.dense().bytes.empty()) {
    const StepTrace::WireSpan span(trace_, bucket, round, 0, place.lane);
    if (auto done = co_await collective.all_reduce(round.dense(), collectives::ReduceOp::sum, about); !done) {
      co_return of_bucket(done.error(), bucket);
    }
  }
  for (std::uint32_t pass = 0; pass < round.passes().size(); ++pass) {
    about.part += parts_per_operation;
    auto operation = combine(bucket, pass, about);
    if (auto done = co_await operation; !done) co_return of_bucket(done.error(), bucket);
    if (pass + 1 == round.passes().size()) break;
    Computation between(codec_, [&]() -> Result<void> {
      {
        const StepTrace::Span span(trace_, bucket, Activity::decode, pass + 1);
        if (auto decoded = round.decode(pass); !decoded) return decoded;
      }
      const StepTrace::Span span(trace_, bucket, Activity::encode, pass + 2);
      return round.encode(pass + 1);
    });
    if (auto done = co_await between; !done) co_return done.error();
  }
  turns.pass();

  Computation last(codec_, [&]() -> Result<void> {
    const auto passes = static_cast<std::uint32_t>(round.passes().size());
    const StepTrace::Span span(trace_, bucket, Activity::decode, passes);
    if (auto concluded = round.conclude_dense(); !concluded) return concluded;
    return passes == 0 ? Result<void>() : round.decode(passes - 1);
  });
  co_return co_await last;
}

/// Takes the payloads of a pass to those who combine them.
Task<> BucketSchedule::combine(std::size_t bucket, std::uint32_t pass, Subject about) {
  BucketRound& round = rounds_[bucket];
  const std::size_t lane = places_[bucket].lane;
  const bool gathers = round.passes()[pass] == Reduction::gather;
  if (gathers && round.by_owners()) co_return co_await combine_by_owners(bucket, pass, about);
  auto& collective = *collectives_[lane];
  const StepTrace::WireSpan span(trace_, bucket, round, pass + 1, lane);
  auto operation = gathers ? collective.all_gather(round.payload(), round.gathered(), about)
                           : collective.all_reduce(round.sums(pass), round.operation(pass), about);
  co_return co_await operation;
}

/// Takes the payloads to the owners of the bucket's shares, and what these make of them to all.
Task<> BucketSchedule::combine_by_owners(std::size_t bucket, std::uint32_t pass, Subject about) {
  BucketRound& round = rounds_[bucket];
  const std::size_t lane = places_[bucket].lane;
  auto& collective = *collectives_[lane];
  {
    const StepTrace::WireSpan span(trace_, bucket, round, pass + 1, lane);
    auto sending = collective.to_owners(round.outgoing(), round.incoming(), about);
    if (auto done = co_await sending; !done) co_return done.error();
  }
  Computation combining(codec_, [&] {
    const StepTrace::Span span(trace_, bucket, Activity::decode, pass + 1);
    return round.combine();
  });
  if (auto done = co_await combining; !done) co_return done.error();
  const StepTrace::WireSpan span(trace_, bucket, round, pass + 1, lane);
  about.part += parts_per_operation / 2;
  auto sending = collective.from_owners(round.combined(), round.gathered(), about);
  co_return co_await sending;
}

}  // namespace weir::actors
