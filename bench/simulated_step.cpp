#include "bench/simulated_step.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/in_process.hpp"
#include "training/exchange/lane_order.hpp"

namespace weir::bench {
namespace {

using collectives::Collective;
using collectives::Communicator;
using collectives::Element;
using collectives::Gathered;
using collectives::InProcessNetwork;
using collectives::Subject;
using collectives::Task;
using training::BucketLoad;
using training::CodedLoad;
using training::Form;
using training::PassLoad;
using training::Route;
using training::Situation;

/// The parts of a message's subject that one operation of a bucket may use.
constexpr std::uint32_t parts_per_operation = 1 << 16;

/// Numbers are floats.
std::uint64_t whole_floats(double bytes) {
  return static_cast<std::uint64_t>(std::llround(bytes / sizeof(float))) * sizeof(float);
}

Transfer pass_transfer(const Situation& in, const CodedLoad& load, const PassLoad& pass, const Route& route) {
  Transfer transfer{.topology = route.topology, .bytes = static_cast<std::uint64_t>(std::llround(pass.bytes))};
  transfer.encode_seconds = load.encode_seconds / static_cast<double>(load.passes.size());
  if (pass.summed) {
    transfer.bytes = whole_floats(pass.bytes);
    transfer.element = *pass.summed;
  } else if (route.by_owners) {
    transfer.kind = Transfer::Kind::by_owners;
    // A rank decodes its share of all payloads and encodes it again.
    transfer.combine_seconds = load.decode_seconds;
    transfer.encode_combined_seconds = load.encode_seconds / in.ranks;
  } else {
    transfer.kind = Transfer::Kind::all_gather;
  }
  return transfer;
}

/// One rank in a step.
class Rank {
 public:
  Rank(InProcessNetwork& network, std::uint32_t rank, std::uint32_t ranks, std::uint32_t lanes,
       std::span<const BucketWork> buckets, std::span<const training::LanePlace> places, std::span<std::byte> values)
      : network_(network), ranks_(ranks), buckets_(buckets), places_(places), values_(values) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      lanes_.push_back(std::make_unique<Lane>(network, network.communicator(rank, lane)));
    }
  }

  void begin() {
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) tasks_.push_back(exchange(bucket));
    for (auto& task : tasks_) task.start();
  }

  Result<void> result() {
    for (auto& task : tasks_) {
      if (!task.done()) return Error{Errc::internal, "a bucket has not been exchanged"};
      if (auto done = task.take_result(); !done) return done.error();
    }
    return {};
  }

 private:
  struct Lane {
    Lane(InProcessNetwork& network, std::unique_ptr<Communicator> communicator)
        : group(std::move(communicator)), turns(network), collectives(collectives::topologies().size()) {}

    Collective& collective(std::size_t topology) {
      auto& made = collectives[topology];
      if (!made) made = collectives::topologies()[topology].make(*group);
      return *made;
    }

    const std::unique_ptr<Communicator> group;
    training::Turns turns;
    std::vector<std::unique_ptr<Collective>> collectives;  ///< by topology, those that were needed
  };

  /// A thread that does one thing after the other.
  struct CodecThread {
    double free_at = 0;
  };

  Task<> code(CodecThread& thread, double seconds) {
    thread.free_at = std::max(thread.free_at, network_.now()) + seconds;
    return network_.until(thread.free_at);
  }

  Task<> exchange(std::size_t bucket) {
    const BucketWork& work = buckets_[bucket];
    Lane& lane = *lanes_[places_[bucket].lane];
    auto computing = network_.until(work.ready_seconds);
    if (auto done = co_await computing; !done) co_return done.error();
    auto encoding = code(encoder_, work.encode_seconds);
    if (auto done = co_await encoding; !done) co_return done.error();
    {
      training::Turns::Turn turn(lane.turns, places_[bucket].turn);
      if (auto mine = co_await turn; !mine) co_return mine.error();
    }
    Subject about{.version = 0, .bucket = static_cast<std::uint32_t>(bucket), .part = 0};
    for (const Transfer& transfer : work.transfers) {
      if (transfer.encode_seconds > 0) {
        auto between = code(encoder_, transfer.encode_seconds);
        if (auto done = co_await between; !done) co_return done.error();
      }
      auto carrying = carry(transfer, lane, about);
      if (auto done = co_await carrying; !done) co_return done.error();
      about.part += parts_per_operation;
    }
    lane.turns.pass();
    auto decoding = code(decoder_, work.decode_seconds);
    co_return co_await decoding;
  }

  Task<> carry(const Transfer& transfer, Lane& lane, Subject about) {
    Collective& collective = lane.collective(transfer.topology);
    const std::byte* const reserved_addresses = lane.group->reserved_addresses();
    if (transfer.kind == Transfer::Kind::all_reduce) {
      const collectives::Buffer buffer{.bytes = values_.first(transfer.bytes), .element = transfer.element};
      auto reducing = collective.all_reduce(buffer, collectives::ReduceOp::sum, about);
      co_return co_await reducing;
    }
    Gathered gathered;
    gathered.bytes_max = transfer.bytes;
    if (transfer.kind == Transfer::Kind::all_gather) {
      auto gathering = collective.all_gather(BytesView(reserved_addresses, transfer.bytes), gathered, about);
      co_return co_await gathering;
    }
    const BytesView share(reserved_addresses, (transfer.bytes + ranks_ - 1) / ranks_);
    {
      const std::vector<BytesView> outgoing(collective.owners(), share);
      auto sending = collective.to_owners(outgoing, gathered, about);
      if (auto done = co_await sending; !done) co_return done.error();
    }
    auto combining = code(decoder_, transfer.combine_seconds);
    if (auto done = co_await combining; !done) co_return done.error();
    auto encoding = code(encoder_, transfer.encode_combined_seconds);
    if (auto done = co_await encoding; !done) co_return done.error();
    about.part += parts_per_operation / 2;
    auto sending = collective.from_owners(share, gathered, about);
    co_return co_await sending;
  }

  InProcessNetwork& network_;
  const std::uint32_t ranks_;
  const std::span<const BucketWork> buckets_;
  const std::span<const training::LanePlace> places_;
  const std::span<std::byte> values_;  ///< what is reduced: only its length matters
  CodecThread encoder_;
  CodecThread decoder_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Task<>> tasks_;  ///< by bucket; last: they use all of the above
};

}  // namespace

std::vector<BucketWork> work_of(const Situation& in, std::span<const Route> routes) {
  // As predicted_seconds(): the backward pass is two thirds of the computation.
  const double forward = in.compute_seconds / 3;
  double all_bytes = 0;
  for (const BucketLoad& load : in.buckets) all_bytes += load.dense_bytes;
  double bytes = 0;
  std::vector<BucketWork> works;
  for (std::size_t b = 0; b < in.buckets.size(); ++b) {
    const BucketLoad& load = in.buckets[b];
    const Route& route = routes[b];
    BucketWork& work = works.emplace_back();
    bytes += load.dense_bytes;
    work.ready_seconds = forward + (all_bytes == 0 ? 1 : bytes / all_bytes) * (in.compute_seconds - forward);
    const bool coded = load.coded && route.form == Form::coded;
    const CodedLoad& encoded = route.by_owners ? load.by_owners : load.by_all;
    double dense = coded ? encoded.left_dense_bytes : load.dense_bytes;
    work.encode_seconds = work.decode_seconds = dense * in.dense_seconds_per_byte;
    const bool rounded = load.coded && route.form == Form::bfloat16;
    if (rounded) dense /= 2;
    if (b + 1 == in.buckets.size()) dense += sizeof(float);  // the votes
    if (dense > 0) {
      work.transfers.push_back({.topology = route.topology,
                                .bytes = whole_floats(dense),
                                .element = rounded ? Element::bfloat16 : Element::float32});
    }
    if (!coded || encoded.passes.empty()) continue;
    const std::size_t first = work.transfers.size();
    for (const PassLoad& pass : encoded.passes) work.transfers.push_back(pass_transfer(in, encoded, pass, route));
    work.encode_seconds += std::exchange(work.transfers[first].encode_seconds, 0);  // together with what is dense
    const bool all_payloads = !encoded.passes.back().summed && !route.by_owners;
    work.decode_seconds += encoded.decode_seconds * (all_payloads ? in.ranks : 1);
  }
  return works;
}

double frames_of(std::span<const BucketWork> buckets, std::uint32_t ranks) {
  const double others = ranks - 1;
  const auto frames = [](double bytes) { return std::ceil(bytes / Communicator::piece_bytes_max); };
  double each = 0;  // sent by one rank
  for (const BucketWork& bucket : buckets) {
    for (const Transfer& transfer : bucket.transfers) {
      const auto bytes = static_cast<double>(transfer.bytes);
      const auto name = collectives::topologies()[transfer.topology].name;
      if (transfer.kind == Transfer::Kind::all_gather) {
        each += others * frames(bytes);
      } else if (transfer.kind == Transfer::Kind::by_owners || name == "ring" || name == "two_hop") {
        each += 2 * others * frames(bytes / ranks);
      } else {
        each += 2 * (frames(bytes) + std::bit_width(ranks));
      }
    }
  }
  return each * ranks;
}

Result<double> simulated_seconds(const Situation& in, std::span<const BucketWork> buckets) {
  collectives::NetworkModel model{.latency_seconds = in.links.latency_seconds,
                                  .combine_seconds_per_byte = in.links.combine_seconds_per_byte,
                                  .packing = in.links.packing,
                                  .window_bytes = std::uint64_t{1} << 62,
                                  .carries_data = false};
  if (in.links.seconds_per_byte > 0) model.bytes_per_second = 1 / in.links.seconds_per_byte;
  const std::uint32_t lanes = in.lanes + 1;
  const auto places = training::places_in_lanes(buckets.size(), lanes);
  std::uint64_t longest = 0;
  for (const BucketWork& bucket : buckets) {
    for (const Transfer& transfer : bucket.transfers) longest = std::max(longest, transfer.bytes);
  }
  Bytes values;  // never touched, so that it takes no memory
  values.resize(longest, boost::container::default_init);
  const auto network = InProcessNetwork::make(in.ranks, lanes, model);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t rank = 0; rank < in.ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(*network, rank, in.ranks, lanes, buckets, places, values));
  }
  for (auto& rank : ranks) rank->begin();
  network->run_while_busy();
  for (std::uint32_t rank = 0; rank < in.ranks; ++rank) {
    if (auto done = ranks[rank]->result(); !done) return done.error().within("rank " + std::to_string(rank));
  }
  return std::max(network->now(), in.compute_seconds);
}

}  // namespace weir::bench
