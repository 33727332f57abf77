#include "training/exchange/bucket_schedule.hpp"

#include <optional>
#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "collectives/hosts.hpp"
#include "collectives/topologies/tree.hpp"

namespace weir::training {
namespace {

using collectives::Subject;
using collectives::Task;
using compressors::Reduction;
using protocol::Activity;
using protocol::BucketSpan;

/// The parts of a message's subject that one operation of a bucket may use.
constexpr std::uint32_t parts_per_operation = 1 << 16;

}  // namespace

class BucketSchedule::Gradients final : public collectives::Waiting {};

/// Where a bucket goes, and what its task waits for.
struct BucketSchedule::Place : LanePlace {
  std::size_t sum_turn = 0;   ///< between the devices of a host, if the bucket passes there
  std::size_t mean_turn = 0;  ///< the same, after the sums of all buckets
  bool ready = false;
  Gradients* awaited = nullptr;
};

/// A lane, what carries buckets over it, and in which order.
class BucketSchedule::Lane {
 public:
  Lane(collectives::Communicator& group, collectives::Loop& loop, const collectives::TopologyChoice& choice,
       bool by_hosts, DeviceLane* devices)
      : turns(loop), turns_up(loop), turns_down(loop), group_(group), choice_(choice), devices_(devices) {
    if (!by_hosts) return;
    hosts_.emplace(group);
    within.emplace(hosts_->neighbours());
  }

  /// Over all ranks or, by hosts, over the leaders of all hosts.
  collectives::Collective& collective(std::size_t topology, bool by_hosts) {
    if (devices_ != nullptr) return devices_->collective();
    auto& made = by_hosts ? between_hosts_ : over_all_;
    made.resize(collectives::topologies().size());
    if (!made[topology]) {
      collectives::Communicator& group = by_hosts ? hosts_->leaders() : group_;
      const auto& type = collectives::topologies()[topology];
      ensure(type.fits(group.size()), "a topology that the job was checked for");
      made[topology] = type.make(group, choice_);
    }
    return *made[topology];
  }
  bool leads() const { return hosts_->leads(); }

  Turns turns;
  Turns turns_up;                           ///< to the leader of a host
  Turns turns_down;                         ///< and back
  std::optional<collectives::Tree> within;  ///< the ranks of this host, whose rank 0 is the leader

 private:
  collectives::Communicator& group_;
  const collectives::TopologyChoice choice_;
  DeviceLane* const devices_;
  std::optional<collectives::Hosts> hosts_;
  std::vector<std::unique_ptr<collectives::Collective>> over_all_;  ///< by topology, those that were needed
  std::vector<std::unique_ptr<collectives::Collective>> between_hosts_;
};

BucketSchedule::BucketSchedule(collectives::Fabric& fabric, const collectives::TopologyChoice& choice, bool by_hosts,
                               DeviceLane* devices, std::span<const Bucket> buckets, std::vector<BucketRound>& rounds,
                               CodecThreads& codecs, StepTrace& trace, Ended ended)
    : fabric_(fabric),
      by_hosts_(by_hosts),
      within_hosts_(devices != nullptr && devices->within_hosts() ? devices : nullptr),
      rounds_(rounds),
      codecs_(codecs),
      trace_(trace),
      ended_(std::move(ended)),
      device_turns_(fabric.thread().loop()) {
  DeviceLane* const over_all = within_hosts_ == nullptr ? devices : nullptr;
  for (std::uint32_t lane = 0; lane < fabric.lanes(); ++lane) {
    lanes_.push_back(std::make_unique<Lane>(fabric.lane(lane), fabric.thread().loop(), choice, by_hosts, over_all));
  }
  for (std::size_t first = 0, last = 0; first < buckets.size(); first = last) {
    while (last < buckets.size() && buckets[last].group == buckets[first].group) ++last;
    if (over_all != nullptr) {
      for (LanePlace place : places_in_lanes(last - first, 1)) {
        place.lane = over_all->lane();
        places_.push_back({place});
      }
    } else {
      put_places(first, last);
    }
  }
  tasks_.reserve(rounds.size());
}

/// Of the buckets of a group, from `first` to `last`, without that one.
void BucketSchedule::put_places(std::size_t first, std::size_t last) {
  const std::size_t of_devices = within_hosts_ == nullptr ? 0 : 1;
  for (const LanePlace& place : places_in_lanes(last - first, fabric_.lanes() - of_devices)) places_.push_back({place});
  if (within_hosts_ == nullptr) return;
  std::size_t turn = 0;
  for (std::size_t bucket = first; bucket < last; ++bucket) {
    if (rounds_[bucket].by_hosts()) places_[bucket].sum_turn = turn++;
  }
  for (std::size_t bucket = first; bucket < last; ++bucket) {
    const BucketRound& round = rounds_[bucket];
    if (round.by_hosts() && round.goes_between_hosts()) places_[bucket].mean_turn = turn++;
  }
}

BucketSchedule::~BucketSchedule() = default;

void BucketSchedule::begin(const Step& step, std::span<const Route> routes, std::size_t first, std::size_t last) {
  if (failed_) return;
  step_ = step;
  routes_.assign(routes.begin(), routes.end());
  trace_.begin(step.begin);
  left_ = last - first;
  for (auto& lane : lanes_) {
    lane->turns.restart();
    lane->turns_up.restart();
    lane->turns_down.restart();
  }
  device_turns_.restart();
  for (Place& place : places_) place.ready = false;
  tasks_.clear();
  for (std::size_t bucket = first; bucket < last; ++bucket) tasks_.push_back(exchange(bucket));
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
  Result<void> done;
  if (rounds_[bucket].by_hosts() && within_hosts_ != nullptr) {
    done = co_await pass_by_devices(bucket);
  } else if (rounds_[bucket].by_hosts()) {
    done = co_await pass_by_hosts(bucket);
  } else {
    done = co_await pass_through(bucket);
  }
  if (failed_) co_return done;
  failed_ = !done;
  if (failed_) {
    done = done.error().within("bucket " + std::to_string(bucket));
    end_others(bucket, done.error());
  }
  if (failed_ || --left_ == 0) ended_(done, done ? trace_.times() : PhaseTimes());
  co_return done;
}

bool BucketSchedule::urgent(std::size_t bucket) const { return places_[bucket].lane == 0; }

/// Whether the encoder begins with the bucket before others that were ready sooner. Not on a device: it is still
/// computing what is given to the exchange, in that order, and the encoder would wait for the last of it.
bool BucketSchedule::begins_early(std::size_t bucket) const {
  return urgent(bucket) && !rounds_[bucket].is_of_device();
}

/// Where a bucket is encoded, or gathered if it is plain. Of a device, a plain bucket beside coded ones has gradients
/// of all layers, the last to be computed among them: on the encoder, coded gradients that are there would wait, too.
CodecThread& BucketSchedule::thread_to_begin(std::size_t bucket) {
  const BucketRound& round = rounds_[bucket];
  return round.is_of_device() && !round.may_code() ? codecs_.gatherer : codecs_.encoder;
}

/// Ends the exchange of all ranks, if it is not the group that has failed: the others would wait for this bucket.
void BucketSchedule::end_others(std::size_t bucket, const Error& error) {
  const Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
  fabric_.lane(0).abort(error, collectives::Blame::of_giving_up(fabric_.rank(), about));
}

/// Waits until it is the bucket's turn in its lane.
Task<> BucketSchedule::turn_of(std::size_t bucket, Turns& turns) {
  return turn_of(bucket, turns, places_[bucket].turn);
}

Task<> BucketSchedule::turn_of(std::size_t bucket, Turns& turns, std::size_t number) {
  Turns::Turn turn(turns, number);
  const StepTrace::Span span(trace_, bucket, Activity::wait, 0, places_[bucket].lane);
  co_return co_await turn;
}

Task<> BucketSchedule::pass_through(std::size_t bucket) {
  Lane& lane = *lanes_[places_[bucket].lane];
  Computation encoding(thread_to_begin(bucket), begins_early(bucket), [&] {
    rounds_[bucket].begin(step_, routes_[bucket]);
    return encode(bucket);
  });
  if (auto done = co_await encoding; !done) co_return done.error();

  auto turn = turn_of(bucket, lane.turns);
  if (auto mine = co_await turn; !mine) co_return mine.error();
  const bool beside_hosts = by_hosts_ && within_hosts_ == nullptr;
  if (beside_hosts) {  // messages within the host are among those of the buckets that pass by hosts
    auto up = turn_of(bucket, lane.turns_up);
    if (auto mine = co_await up; !mine) co_return mine.error();
    auto down = turn_of(bucket, lane.turns_down);
    if (auto mine = co_await down; !mine) co_return mine.error();
  }
  auto carrying = carry(bucket, lane.collective(routes_[bucket].topology, /*by_hosts=*/false));
  if (auto done = co_await carrying; !done) co_return done.error();
  lane.turns.pass();
  if (beside_hosts) {
    lane.turns_up.pass();
    lane.turns_down.pass();
  }
  Computation decoding(codecs_.decoder, urgent(bucket), [&] { return decode(bucket); });
  co_return co_await decoding;
}

/// Gradients are summed within the host, encoded by its leader and exchanged between leaders, and the means copied to
/// the ranks of the host.
Task<> BucketSchedule::pass_by_hosts(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  Lane& lane = *lanes_[places_[bucket].lane];
  const std::size_t place = places_[bucket].lane;
  Computation gathering(codecs_.encoder, begins_early(bucket), [&] {
    round.begin(step_, routes_[bucket]);
    const StepTrace::Span span(trace_, bucket, Activity::encode, BucketSpan::part_within_hosts);
    return round.gather_host();
  });
  if (auto done = co_await gathering; !done) co_return done.error();

  Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
  auto turn_up = turn_of(bucket, lane.turns_up);
  if (auto mine = co_await turn_up; !mine) co_return mine.error();
  {
    const StepTrace::WireSpan span(trace_, bucket, round.host_load(), BucketSpan::part_within_hosts, place);
    auto summing = lane.within->combine_to(round.host_sums(), 0, collectives::ReduceOp::sum, about);
    if (auto done = co_await summing; !done) co_return done.error();
  }
  lane.turns_up.pass();

  auto passing = pass_between_hosts(bucket);
  if (auto done = co_await passing; !done) co_return done.error();

  auto turn_down = turn_of(bucket, lane.turns_down);
  if (auto mine = co_await turn_down; !mine) co_return mine.error();
  {
    const StepTrace::WireSpan span(trace_, bucket, round.host_load(), BucketSpan::part_within_hosts, place);
    auto copying = lane.within->broadcast(round.host_means(), 0, about);
    if (auto done = co_await copying; !done) co_return done.error();
  }
  lane.turns_down.pass();
  co_return round.take_host_means();
}

/// The same where the devices of a host make the sums and copy the means. What the leaders have nothing to do with
/// comes to an end with the sums. Buckets are given before their gradients have been computed, for which the gatherer
/// waits: the encoder, if it did, would have to wait for the gradients of all buckets before the first sum is encoded.
Task<> BucketSchedule::pass_by_devices(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  Computation gathering(codecs_.gatherer, /*urgent=*/false, [&] {
    round.begin(step_, routes_[bucket]);
    const StepTrace::Span span(trace_, bucket, Activity::encode, BucketSpan::part_within_hosts);
    return round.gather_host();
  });
  if (auto done = co_await gathering; !done) co_return done.error();
  auto summing = sum_between_devices(bucket);
  if (auto done = co_await summing; !done) co_return done.error();
  if (round.goes_between_hosts()) {
    auto passing = pass_between_hosts(bucket);
    if (auto done = co_await passing; !done) co_return done.error();
    auto copying = copy_between_devices(bucket);
    if (auto done = co_await copying; !done) co_return done.error();
  }
  Computation taking(codecs_.decoder, urgent(bucket), [&] {
    const StepTrace::Span span(trace_, bucket, Activity::decode, BucketSpan::part_within_hosts);
    return round.take_host_means();
  });
  co_return co_await taking;
}

/// What the leaders do with the sums of their hosts; the others let the bucket pass.
Task<> BucketSchedule::pass_between_hosts(std::size_t bucket) {
  Lane& lane = *lanes_[places_[bucket].lane];
  if (lane.leads()) {
    Computation encoding(codecs_.encoder, urgent(bucket), [&] { return encode(bucket); });
    if (auto done = co_await encoding; !done) co_return done.error();
  }
  auto turn = turn_of(bucket, lane.turns);
  if (auto mine = co_await turn; !mine) co_return mine.error();
  if (lane.leads()) {
    auto carrying = carry(bucket, lane.collective(routes_[bucket].topology, /*by_hosts=*/true));
    if (auto done = co_await carrying; !done) co_return done.error();
  }
  lane.turns.pass();
  if (!lane.leads()) co_return Result<void>();
  Computation decoding(codecs_.decoder, urgent(bucket), [&] {
    auto decoded = decode(bucket);
    if (decoded) rounds_[bucket].put_host_means();
    return decoded;
  });
  co_return co_await decoding;
}

Task<> BucketSchedule::sum_between_devices(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  auto turn = turn_of(bucket, device_turns_, places_[bucket].sum_turn);
  if (auto mine = co_await turn; !mine) co_return mine.error();
  if (!within_hosts_->alone()) {
    const Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
    const StepTrace::WireSpan span(trace_, bucket, round.host_load(), BucketSpan::part_within_hosts,
                                   within_hosts_->lane());
    auto summing = within_hosts_->collective().all_reduce(round.host_sums(), round.host_reduction(), about);
    if (auto done = co_await summing; !done) co_return done.error();
  }
  device_turns_.pass();
  co_return Result<void>();
}

Task<> BucketSchedule::copy_between_devices(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  auto turn = turn_of(bucket, device_turns_, places_[bucket].mean_turn);
  if (auto mine = co_await turn; !mine) co_return mine.error();
  if (!within_hosts_->alone()) {
    const Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
    const StepTrace::WireSpan span(trace_, bucket, round.host_load(), BucketSpan::part_within_hosts,
                                   within_hosts_->lane());
    auto copying = within_hosts_->collective().broadcast(round.host_means(), 0, about);
    if (auto done = co_await copying; !done) co_return done.error();
  }
  device_turns_.pass();
  co_return Result<void>();
}

/// What comes before the first message. On the encoder.
Result<void> BucketSchedule::encode(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  const bool coded = !round.coded().passes().empty();
  const StepTrace::Span span(trace_, bucket, Activity::encode, coded ? 1 : 0);
  if (auto gathered = round.gather_dense(); !gathered) return gathered;
  return coded ? round.encode(0) : Result<void>();
}

/// What comes after the last message. On the decoder.
Result<void> BucketSchedule::decode(std::size_t bucket) {
  BucketRound& round = rounds_[bucket];
  const auto passes = static_cast<std::uint32_t>(round.coded().passes().size());
  const StepTrace::Span span(trace_, bucket, Activity::decode, passes);
  auto decoded = round.conclude_dense();
  if (decoded && passes > 0) decoded = round.coded().decode(passes - 1);
  round.coded().let_gradients_go();
  return decoded;
}

/// Takes what is dense and the payloads of all passes over the group.
Task<> BucketSchedule::carry(std::size_t bucket, collectives::Collective& collective) {
  BucketRound& round = rounds_[bucket];
  Subject about{.version = step_.number, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
  if (!round.dense().bytes.empty()) {
    const StepTrace::WireSpan span(trace_, bucket, round.dense_load(), 0, places_[bucket].lane);
    auto reducing = collective.all_reduce(round.dense(), round.reduction(), about);
    if (auto done = co_await reducing; !done) co_return done.error();
  }
  const auto passes = static_cast<std::uint32_t>(round.coded().passes().size());
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    about.part += parts_per_operation;
    auto combining = combine(bucket, pass, collective, about);
    if (auto done = co_await combining; !done) co_return done.error();
    if (pass + 1 == passes) break;
    Computation decoding(codecs_.decoder, urgent(bucket), [&] {
      const StepTrace::Span span(trace_, bucket, Activity::decode, pass + 1);
      return round.coded().decode(pass);
    });
    if (auto done = co_await decoding; !done) co_return done.error();
    Computation encoding(codecs_.encoder, urgent(bucket), [&] {
      const StepTrace::Span span(trace_, bucket, Activity::encode, pass + 2);
      return round.encode(pass + 1);
    });
    if (auto done = co_await encoding; !done) co_return done.error();
  }
  co_return Result<void>();
}

/// Takes the payloads of a pass to those who combine them.
Task<> BucketSchedule::combine(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                               Subject about) {
  BucketRound& round = rounds_[bucket];
  CodedRound& coded = round.coded();
  const bool gathers = coded.passes()[pass] == Reduction::gather;
  if (gathers && coded.by_owners()) {
    auto combining = combine_by_owners(bucket, pass, collective, about);
    co_return co_await combining;
  }
  const StepTrace::WireSpan span(trace_, bucket, round.coded_load(), pass + 1, places_[bucket].lane);
  auto operation = gathers ? collective.all_gather(coded.payload(), coded.gathered(), about)
                           : collective.all_reduce(coded.sums(pass), coded.operation(pass), about);
  co_return co_await operation;
}

/// Takes the payloads to the owners of the bucket's shares, and what these make of them to all.
Task<> BucketSchedule::combine_by_owners(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                                         Subject about) {
  BucketRound& round = rounds_[bucket];
  CodedRound& coded = round.coded();
  auto bringing = coded.by_hops() ? bring_by_hops(bucket, pass, collective, about)
                                  : bring_to_owners(bucket, pass, collective, about);
  if (auto done = co_await bringing; !done) co_return done.error();
  Computation encoding(codecs_.encoder, urgent(bucket), [&] {
    const StepTrace::Span span(trace_, bucket, Activity::encode, pass + 1);
    return coded.encode_combined();
  });
  if (auto done = co_await encoding; !done) co_return done.error();
  const StepTrace::WireSpan span(trace_, bucket, round.coded_load(), pass + 1, places_[bucket].lane);
  about.part += parts_per_operation / 2;
  auto sending = collective.from_owners(coded.combined(), coded.gathered(), about);
  co_return co_await sending;
}

/// Takes the payloads straight to the owners, who combine them.
Task<> BucketSchedule::bring_to_owners(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                                       Subject about) {
  BucketRound& round = rounds_[bucket];
  CodedRound& coded = round.coded();
  {
    const StepTrace::WireSpan span(trace_, bucket, round.coded_load(), pass + 1, places_[bucket].lane);
    auto sending = collective.to_owners(coded.outgoing(), coded.incoming(), about);
    if (auto done = co_await sending; !done) co_return done.error();
  }
  Computation combining(codecs_.decoder, urgent(bucket), [&] {
    const StepTrace::Span span(trace_, bucket, Activity::decode, pass + 1);
    return coded.combine();
  });
  co_return co_await combining;
}

/// Takes the payloads to the owners hop by hop, between which sums of them are encoded.
Task<> BucketSchedule::bring_by_hops(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                                     Subject about) {
  BucketRound& round = rounds_[bucket];
  CodedRound& coded = round.coded();
  for (std::uint32_t hop = 0; hop < coded.hops(); ++hop, ++about.part) {
    if (hop > 0) {
      Computation encoding(codecs_.encoder, urgent(bucket), [&] {
        const StepTrace::Span span(trace_, bucket, Activity::encode, pass + 1);
        return coded.encode_hop(hop);
      });
      if (auto done = co_await encoding; !done) co_return done.error();
    }
    {
      const StepTrace::WireSpan span(trace_, bucket, round.coded_load(), pass + 1, places_[bucket].lane);
      auto swapping = collective.swap(coded.hop_payload(), coded.partner(hop), coded.incoming(), about);
      if (auto done = co_await swapping; !done) co_return done.error();
    }
    Computation adding(codecs_.decoder, urgent(bucket), [&] {
      const StepTrace::Span span(trace_, bucket, Activity::decode, pass + 1);
      return coded.add_hop(hop);
    });
    if (auto done = co_await adding; !done) co_return done.error();
  }
  co_return Result<void>();
}

}  // namespace weir::training
