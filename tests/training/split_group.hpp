#pragma once

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/topologies/split_gather.hpp"
#include "collectives/transports/in_process.hpp"
#include "compressors/catalog.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "training/exchange/split_round.hpp"

namespace weir::training::testing {

/// How many entries a message of SplitRound's carries: behind the counts, payloads, those of the format `sparse` being
/// counted.
inline std::uint64_t entries_in(BytesView message) {
  std::uint64_t entries = 0;
  if (message.empty()) return entries;
  (void)compressors::take_payload(message).value();
  while (!message.empty()) {
    const BytesView payload = compressors::take_payload(message).value();
    auto body = compressors::open_payload(payload, compressors::Format::sparse);
    if (!body) continue;
    (void)compressors::read_varint(*body);
    entries += compressors::read_varint(*body).value();
  }
  return entries;
}

/// What a rank has chosen, sent and received in a step.
struct Volume {
  std::uint64_t sent = 0;  ///< entries
  std::uint64_t received = 0;
  std::uint64_t sent_bytes = 0;  ///< all that is on the wire
  std::uint64_t received_bytes = 0;
};

/// What the ranks of a SplitGroup exchange.
struct SplitCase {
  std::uint32_t ranks = 1;
  std::vector<std::vector<std::int64_t>> shapes;
  std::string compressor = "topk";
  nlohmann::json params = nullptr;
  std::string memory = "residual";
  nlohmann::json memory_params = nullptr;
};

/// The ranks of an exchange over split_gather with one bucket, all in this thread: the production rounds and topology
/// over a simulated network.
class SplitGroup {
 public:
  /// By parameter.
  using Gradients = std::vector<at::Tensor>;

  class Rank {
   public:
    Rank(const SplitCase& of, std::unique_ptr<collectives::Communicator> group)
        : compression(compression_of(of)), group_(std::move(group)), topology(*group_) {
      for (const auto& shape : of.shapes) {
        bucket_.parameters.push_back(static_cast<std::uint32_t>(parameters_.size()));
        parameters_.push_back({"p" + std::to_string(parameters_.size()), at::zeros(shape)});
        means.push_back({.tensor = at::zeros(shape), .sparse = false, .positions = {}});
      }
      setting_ = std::make_unique<RoundSetting>(RoundSetting{.parameters = parameters_,
                                                             .values = {},
                                                             .means = means,
                                                             .compression = compression,
                                                             .gathered_mean = gathered_mean_,
                                                             .seed = 5,
                                                             .ranks = of.ranks,
                                                             .rank = group_->rank(),
                                                             .world = of.ranks,
                                                             .owners = of.ranks,
                                                             .regions = true});
      round = std::make_unique<SplitRound>(*setting_, bucket_);
    }

    const std::vector<std::uint32_t>& parameters() const { return bucket_.parameters; }
    collectives::Traffic traffic() const { return group_->traffic(); }

    compressors::Compression compression;
    std::vector<Mean> means;
    std::unique_ptr<SplitRound> round;

   private:
    static compressors::Compression compression_of(const SplitCase& of) {
      return compressors::builtin()
          .make({.compressor = of.compressor,
                 .params = of.params,
                 .memory = of.memory,
                 .memory_params = of.memory_params,
                 .setting = {}})
          .value();
    }

    std::vector<NamedTensor> parameters_;
    GatheredMean gathered_mean_;
    Bucket bucket_{.parameters = {}, .coded = true};
    std::unique_ptr<RoundSetting> setting_;
    std::unique_ptr<collectives::Communicator> group_;

   public:
    collectives::SplitGather topology;
  };

  explicit SplitGroup(const SplitCase& of) : network_(collectives::InProcessNetwork::make(of.ranks)) {
    for (std::uint32_t rank = 0; rank < of.ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(of, network_->communicator(rank)));
    }
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  Rank& rank(std::uint32_t rank) { return *ranks_[rank]; }

  /// Everything up to the messages to the owners.
  void encode(const std::vector<Gradients>& gradients) {
    for (std::uint32_t r = 0; r < size(); ++r) {
      ranks_[r]->round->begin({.number = step_}, ranks_[r]->parameters(), /*there=*/false);
      ranks_[r]->round->encode(0, gradients[r]).value();
    }
    ++step_;
  }
  void send_to_owners() {
    run([](Rank& rank) { return rank.topology.to_owners(rank.round->outgoing(), rank.round->incoming(), {}); });
  }
  void combine() {
    for (const auto& rank : ranks_) {
      rank->round->combine().value();
      rank->round->encode_combined().value();
    }
  }
  void send_back() {
    run([](Rank& rank) { return rank.topology.from_owners(rank.round->combined(), rank.round->gathered(), {}); });
  }

  /// A whole round. Returns what each rank has sent and received.
  std::vector<Volume> step(const std::vector<Gradients>& gradients) {
    std::vector<Volume> volumes(size());
    for (std::uint32_t r = 0; r < size(); ++r) {
      volumes[r].sent_bytes -= ranks_[r]->traffic().sent_bytes;
      volumes[r].received_bytes -= ranks_[r]->traffic().received_bytes;
    }
    encode(gradients);
    const auto count = [&](std::uint32_t from, std::uint32_t to, BytesView message) {
      if (from == to) return;
      volumes[from].sent += entries_in(message);
      volumes[to].received += entries_in(message);
    };
    for (std::uint32_t from = 0; from < size(); ++from) {
      const auto outgoing = ranks_[from]->round->outgoing();
      for (std::uint32_t to = 0; to < size(); ++to) count(from, to, outgoing[to]);
    }
    send_to_owners();
    combine();
    for (std::uint32_t from = 0; from < size(); ++from) {
      for (std::uint32_t to = 0; to < size(); ++to) count(from, to, ranks_[from]->round->combined());
    }
    send_back();
    for (const auto& rank : ranks_) rank->round->decode(0).value();
    for (std::uint32_t r = 0; r < size(); ++r) {
      volumes[r].sent_bytes += ranks_[r]->traffic().sent_bytes;
      volumes[r].received_bytes += ranks_[r]->traffic().received_bytes;
    }
    return volumes;
  }

 private:
  void run(const std::function<collectives::Task<>(Rank&)>& operation) {
    std::vector<collectives::Task<>> tasks;
    for (const auto& rank : ranks_) tasks.push_back(operation(*rank));
    for (auto& task : tasks) task.start();
    network_->run_while_busy();
    for (auto& task : tasks) task.take_result().value();
  }

  std::unique_ptr<collectives::InProcessNetwork> network_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::uint64_t step_ = 0;
};

}  // namespace weir::training::testing
