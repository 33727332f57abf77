#include "training/exchange/step_trace.hpp"

#include <algorithm>
#include <utility>

namespace weir::training {
namespace {

using protocol::Activity;
using protocol::BucketSpan;
using protocol::ByteCounts;
using protocol::StepTimeline;
using protocol::TrafficTotals;

static_assert(compressors::Passes::static_capacity < BucketSpan::part_within_hosts);
static_assert(BucketSpan::part_within_hosts + 2 <= TrafficTotals::phases_max);

/// The first time that a bucket is encoded, its wait, its dense message and the last time that it is decoded; for each
/// pass the messages, what is computed between them and what is computed after them; by hosts, two waits and two
/// messages more; and for each hop of a pass, of which 1024 ranks make ten, a message and what is computed around it.
constexpr std::size_t spans_of_bucket_max = 8 + 6 * compressors::Passes::static_capacity + 3 * 10;

ByteCounts counts(const collectives::Traffic& traffic) { return {traffic.sent_bytes, traffic.received_bytes}; }

ByteCounts difference(const ByteCounts& all, const ByteCounts& part) {
  return {all.sent - part.sent, all.received - part.received};
}

/// `share` is at most 1.
ByteCounts part_of(const ByteCounts& whole, double share) {
  const auto part = [share](std::uint64_t bytes) {
    return std::min(bytes, static_cast<std::uint64_t>(static_cast<double>(bytes) * share));
  };
  return {part(whole.sent), part(whole.received)};
}

}  // namespace

StepTrace::StepTrace(collectives::Fabric& fabric, std::span<const NamedTensor> parameters, std::size_t buckets)
    : fabric_(fabric), parameters_(parameters), tensors_(parameters.size()) {
  divide(buckets);
  pass_over();
}

void StepTrace::pass_over() {
  counted_.clear();
  for (std::uint32_t lane = 0; lane < fabric_.lanes(); ++lane) counted_.push_back(counts(fabric_.lane(lane).traffic()));
}

void StepTrace::divide(std::size_t buckets) {
  buckets_ = std::vector<OfBucket>(buckets);
  for (auto& bucket : buckets_) bucket.spans.reserve(spans_of_bucket_max);
}

void StepTrace::begin(std::chrono::steady_clock::time_point when) {
  const bool goes_on = std::exchange(begin_, when) == when;
  for (auto& bucket : buckets_) {
    bucket.times = {};
    if (goes_on) continue;
    bucket.spans.clear();
    bucket.dropped = 0;
  }
}

double StepTrace::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

StepTrace::Span::Span(StepTrace& trace, std::size_t bucket, Activity activity, std::uint32_t part, std::size_t lane)
    : trace_(trace),
      span_{.bucket = static_cast<std::uint32_t>(bucket),
            .activity = activity,
            .part = part,
            .lane = static_cast<std::uint32_t>(lane),
            .begin_seconds = trace.now(),
            .seconds = 0,
            .bytes = {}} {}

StepTrace::WireSpan::WireSpan(StepTrace& trace, std::size_t bucket, const BucketRound::Load& load, std::uint32_t part,
                              std::size_t lane)
    : trace_(trace),
      load_(load),
      span_{.bucket = static_cast<std::uint32_t>(bucket),
            .activity = Activity::wire,
            .part = part,
            .lane = static_cast<std::uint32_t>(lane),
            .begin_seconds = trace.now(),
            .seconds = 0,
            .bytes = {}} {}

void StepTrace::add(BucketSpan span) {
  span.seconds = now() - span.begin_seconds;
  OfBucket& bucket = buckets_[span.bucket];
  if (span.activity == Activity::encode) bucket.times.encode += span.seconds;
  if (span.activity == Activity::wire) bucket.times.wire += span.seconds;
  if (span.activity == Activity::decode) bucket.times.decode += span.seconds;
  if (bucket.spans.size() < spans_of_bucket_max) {
    bucket.spans.push_back(span);
  } else {
    ++bucket.dropped;
  }
}

void StepTrace::add_wire(BucketSpan span, const BucketRound::Load& load) {
  const ByteCounts all = counts(fabric_.lane(span.lane).traffic());
  span.bytes = difference(all, counted_[span.lane]);
  counted_[span.lane] = all;
  parts_[span.part] += span.bytes;
  share(span.bytes, load);
  add(span);
}

/// Divides bytes among the tensors of a message, in proportion to what each has in it. No byte is lost to rounding:
/// each tensor gets what lies between two borders.
void StepTrace::share(const ByteCounts& moved, const BucketRound::Load& load) {
  if (load.ends.empty() || load.ends.back() == 0) return;
  ByteCounts given;
  for (std::size_t i = 0; i < load.parameters.size(); ++i) {
    const auto until = part_of(moved, static_cast<double>(load.ends[i]) / static_cast<double>(load.ends.back()));
    tensors_[load.parameters[i]] += difference(until, given);
    given = until;
  }
}

PhaseTimes StepTrace::times() const {
  PhaseTimes sum;
  for (const auto& [times, spans, dropped] : buckets_) {
    sum.encode += times.encode;
    sum.wire += times.wire;
    sum.decode += times.decode;
  }
  return sum;
}

StepTimeline StepTrace::timeline() const {
  StepTimeline timeline;
  for (const auto& bucket : buckets_) {
    const auto room = std::min(bucket.spans.size(), StepTimeline::spans_max - timeline.spans.size());
    timeline.spans.insert(timeline.spans.end(), bucket.spans.begin(),
                          bucket.spans.begin() + static_cast<std::ptrdiff_t>(room));
    timeline.dropped += bucket.dropped + static_cast<std::uint32_t>(bucket.spans.size() - room);
  }
  return timeline;
}

void StepTrace::count(TrafficTotals& totals) const {
  ByteCounts all;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part] == ByteCounts()) continue;
    totals.phases.push_back({protocol::part_name(static_cast<std::uint32_t>(part)), parts_[part]});
    all += parts_[part];
  }
  count_tensors(totals, parameters_, tensors_, all);
}

}  // namespace weir::training
