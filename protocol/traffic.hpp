#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weir::protocol {

/// Bytes to and from other ranks, counted at the gradient sockets: payloads and frame headers.
struct ByteCounts {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;

  friend bool operator==(const ByteCounts&, const ByteCounts&) = default;
  ByteCounts& operator+=(const ByteCounts& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
};

/// What a worker exchanged with one other rank.
struct LinkTraffic {
  std::uint32_t rank = 0;
  ByteCounts bytes;
};

/// What went into a phase of the exchange, or into one tensor.
struct NamedTraffic {
  std::string name;
  ByteCounts bytes;
};

/// All that a worker has exchanged in this attempt of its job, divided in three ways. The sum of the links is the sum
/// of the phases. Tensors and rest together are the phases without "other".
struct TrafficTotals {
  static constexpr std::size_t tensors_max = 20;
  static constexpr std::size_t phases_max = 8;
  static constexpr std::size_t name_bytes_max = 256;

  std::uint64_t step = 0;             ///< steps completed
  std::vector<LinkTraffic> links;     ///< by rank, those that moved something
  std::vector<NamedTraffic> phases;   ///< part_name(), "push", "answer", as there are; "other": of no step
  std::vector<NamedTraffic> tensors;  ///< those with most bytes, at most tensors_max, most first
  ByteCounts rest;                    ///< all other tensors, and what is of none
};

/// What a bucket of gradients does: it is encoded, waits for its turn on a lane, is on the wire, is decoded.
enum class Activity : std::uint8_t { encode, wait, wire, decode };
constexpr Activity last_value(Activity) { return Activity::decode; }

/// Something that a bucket did in a step.
struct BucketSpan {
  static constexpr std::uint32_t part_within_hosts = 5;

  std::uint32_t bucket = 0;
  Activity activity = Activity::encode;
  /// 0: the tensors that are averaged as they are; n: pass n of the compressor; or part_within_hosts: all tensors,
  /// between a host's workers.
  std::uint32_t part = 0;
  std::uint32_t lane = 0;    ///< on the wire, or waited for
  double begin_seconds = 0;  ///< since the step began
  double seconds = 0;
  ByteCounts bytes{};  ///< moved meanwhile, if on the wire
};

/// "dense", "pass 1", ... or "within hosts"
std::string part_name(std::uint32_t part);

/// One step of one worker.
struct StepTimeline {
  static constexpr std::size_t spans_max = 512;

  std::uint64_t step = 0;         ///< steps completed with it
  double seconds = 0;             ///< the whole step
  std::uint32_t dropped = 0;      ///< spans beyond spans_max
  std::vector<BucketSpan> spans;  ///< by bucket, then by time
};

/// How the gradients of a job travel from a step on, and why. Where the job leaves that to the workers, they change it
/// while they train.
struct ExchangePlan {
  static constexpr std::size_t buckets_max = 512;
  static constexpr std::size_t candidates_max = 16;
  static constexpr std::size_t name_bytes_max = 64;    ///< of a form or a topology
  static constexpr std::size_t text_bytes_max = 1024;  ///< of a reason or of a candidate's routes

  /// A bucket's way.
  struct OfBucket {
    std::string form;         ///< "coded", "float32" or "bfloat16"
    std::string topology;     ///< one of the catalog's
    std::uint64_t bytes = 0;  ///< of its gradients as float32
  };
  /// What was considered.
  struct Candidate {
    std::string routes;
    double predicted_seconds = 0;            ///< of a step, by the model
    std::optional<double> measured_seconds;  ///< if it was tried
    bool followed = false;                   ///< it is this plan
  };

  std::uint64_t step = 0;         ///< how many steps were done when it was made: the next one is the first to follow it
  std::string reason;             ///< a sentence
  std::vector<OfBucket> buckets;  ///< at most buckets_max
  double latency_seconds = 0;     ///< of a message; 0: not measured
  double bytes_per_second = 0;    ///< of the slowest rank's port; 0: not measured
  std::vector<Candidate> candidates;
};

/// A worker's report of its traffic.
struct TrafficReport {
  TrafficTotals totals;
  std::optional<StepTimeline> sampled;  ///< a recent step; the ranks of a job sample the same ones
  std::optional<StepTimeline> slowest;  ///< of the attempt without its first step, if it is new
  std::vector<ExchangePlan> plans;      ///< those that are new, of rank 0; at most plans_max
  static constexpr std::size_t plans_max = 32;
};

/// Checks what came from a worker of rank `rank` out of `world`: counts, names, ranks, and that times are numbers.
/// Nothing is right, too. Fails with: invalid_argument.
Result<void> check(const std::optional<TrafficReport>& report, std::uint32_t rank, std::uint32_t world);

}  // namespace weir::protocol
