#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/packing.hpp"
#include "collectives/reduce.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/route.hpp"

namespace weir::training {

/// What messages and memory cost between the ranks of a group, as measured: the constants of the alpha-beta-gamma model
/// (Hockney 1994; Thakur et al. 2005).
struct LinkCosts {
  double latency_seconds = 0;           ///< alpha: of a message, beside its bytes
  double seconds_per_byte = 0;          ///< beta: of a rank's port
  double combine_seconds_per_byte = 0;  ///< gamma: of adding received bytes to own ones
  collectives::PackingCosts packing = {};

  /// Beta of sums of such numbers, which links carry packed where that saves time, or of what is gathered.
  double seconds_per_byte_of(const std::optional<collectives::Element>& summed) const {
    const double share = summed ? collectives::usual_packed_share(*summed) : 1;
    return packing.are_worth(share, seconds_per_byte) ? share * seconds_per_byte : seconds_per_byte;
  }

  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

/// The hosts of a group in which some ranks share one.
struct SharedHosts {
  std::uint32_t count = 0;      ///< of all hosts; 0: no two ranks share one, or all do
  std::uint32_t ranks_max = 1;  ///< on one host
  std::uint32_t ends_max = 1;   ///< ranks of one host after which the next rank is on another
  LinkCosts links;              ///< between the ranks of a host

  friend bool operator==(const SharedHosts&, const SharedHosts&) = default;
};

/// What one pass of a compressor sends for a bucket.
struct PassLoad {
  std::optional<collectives::Element> summed = {};  ///< the numbers of which sums are made; empty: all is gathered
  double bytes = 0;                                 ///< of one rank

  friend bool operator==(const PassLoad&, const PassLoad&) = default;
};

/// What encoding a bucket asks of a rank.
struct CodedLoad {
  double left_dense_bytes = 0;  ///< as float32: of tensors that go dense in this round
  std::vector<PassLoad> passes;
  double encode_seconds = 0;
  double decode_seconds = 0;  ///< of one rank's payload

  friend bool operator==(const CodedLoad&, const CodedLoad&) = default;
};

/// What a bucket asks of a rank.
struct BucketLoad {
  double dense_bytes = 0;   ///< as float32
  bool coded = false;       ///< may be encoded
  std::uint32_t group = 0;  ///< as Bucket
  CodedLoad by_all = {};  ///< where all ranks decode the payloads of all: many ranks' would be more than a dense tensor
  CodedLoad by_owners = {};

  friend bool operator==(const BucketLoad&, const BucketLoad&) = default;
};

/// What some tensors ask for that share a bucket.
BucketLoad sum_of(std::span<const BucketLoad> loads, std::span<const std::uint32_t> members);

/// What buckets ask for. `parameters`: what each parameter does.
std::vector<BucketLoad> loads_of(std::span<const BucketLoad> parameters, std::span<const Bucket> buckets);

/// All that a plan depends on. The same numbers give the same plan, on every rank.
struct Situation {
  std::uint32_t ranks = 1;
  LinkCosts links;  ///< between ranks; where some share a host, between one rank of each host
  SharedHosts hosts = {};
  std::vector<BucketLoad> buckets;    ///< in the order in which the backward pass completes them
  double compute_seconds = 0;         ///< of a step without the exchange; 0: not known
  bool together = false;              ///< all buckets are complete at its end
  double dense_seconds_per_byte = 0;  ///< of putting a dense bucket together and taking it apart
  bool own_cores = true;              ///< the codec threads have cores of their own beside the compute threads
  bool must_be_coded = false;         ///< plain means cannot take the place of coded ones (Traits::must_be_coded)
  bool may_be_rounded = true;         ///< the memory does not add up the means, with what rounding has changed in them
  bool fits_owners = true;            ///< the compressor fits an exchange by owners
  bool by_hosts = false;    ///< tensors that may be coded are summed within hosts first, and one rank of each encodes
  std::uint32_t lanes = 2;  ///< beside the urgent one, which the last bucket has for itself
};

/// How all buckets travel, and how long a step then takes by the model.
struct Plan {
  std::vector<Route> routes;  ///< by bucket
  double step_seconds = 0;
  std::size_t layout = 0;  ///< which of the layouts that were looked at has these buckets

  friend bool operator==(const Plan& a, const Plan& b) { return a.layout == b.layout && a.routes == b.routes; }
};

/// How long a step takes by the model: buckets are encoded one after the other as the backward pass completes them,
/// share the port, and are decoded again. Of several groups, of which a step exchanges one, the mean. `routes`: by
/// bucket.
double predicted_seconds(const Situation& situation, std::span<const Route> routes);

/// Plans, the fastest first, that differ in the form of the large buckets or in their topology; the first one is the
/// best found when each bucket may take a route of its own. Where ranks share hosts, topologies that know of them are
/// among the others. Topologies that only a job can choose are in no plan: those with servers, multi_hop, which is
/// never faster than two_hop by the model, and split_gather, over which a step applies only the largest sums.
std::vector<Plan> plans(const Situation& situation);

/// Of plans(), those that are worth some steps, because the model may be wrong: at most six that it does not find much
/// slower than the best, the best of each form first.
std::vector<Plan> plans_to_try(const Situation& situation);

/// The same where the parameters may be divided into buckets in several ways, `layouts`, of which `current` is the one
/// that is in use: those in the best layout and, if that is another, the best in the current one after them. As long as
/// the time of the computation is not known, nothing can be said about layouts, which differ in how much of the
/// exchange goes on beside it: then all are in the current one. `situation`: but for the buckets.
std::vector<Plan> plans_to_try(const Situation& situation, std::span<const BucketLoad> parameters,
                               std::span<const std::vector<Bucket>> layouts, std::size_t current);

/// Which of the plans that were tried is followed: the one with the shortest steps; of plans that differ by less than
/// the noise, the first. `seconds`: of a step, by plan.
std::size_t best_tried(std::span<const double> seconds);

/// Which of some layouts of the same parameters is the fastest by the model, each with its best plan; the largest
/// buckets come first, and smaller ones have to be clearly faster. `situation`: but for the buckets, what all have in
/// common.
std::size_t best_layout(Situation situation, std::span<const BucketLoad> parameters,
                        std::span<const std::vector<Bucket>> layouts);

}  // namespace weir::training
