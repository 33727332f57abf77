#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "collectives/reduce.hpp"
#include "training/exchange/planner.hpp"
#include "training/exchange/route.hpp"

namespace weir::bench {

/// A collective operation of a bucket.
struct Transfer {
  enum class Kind : std::uint8_t {
    all_reduce,
    all_gather,
    by_owners,  ///< to the owners of shares and, combined, from them
  };

  Kind kind = Kind::all_reduce;
  std::size_t topology = 0;                                      ///< position among collectives::topologies()
  std::uint64_t bytes = 0;                                       ///< of one rank
  collectives::Element element = collectives::Element::float32;  ///< of sums
  double encode_seconds = 0;                                     ///< between it and the one before, on the encoder
  // In the middle of an exchange by owners:
  double combine_seconds = 0;          ///< on the decoder
  double encode_combined_seconds = 0;  ///< on the encoder

  friend auto operator<=>(const Transfer&, const Transfer&) = default;
};

/// What a bucket does in a step, on each rank.
struct BucketWork {
  double ready_seconds = 0;   ///< when the backward pass has completed it
  double encode_seconds = 0;  ///< before all transfers, on the encoder
  std::vector<Transfer> transfers;
  double decode_seconds = 0;  ///< after them, on the decoder

  friend auto operator<=>(const BucketWork&, const BucketWork&) = default;
};

/// What the buckets of a step do if they take these routes.
std::vector<BucketWork> work_of(const training::Situation& situation, std::span<const training::Route> routes);

/// About how many frames a simulation of the step sends.
double frames_of(std::span<const BucketWork> buckets, std::uint32_t ranks);

/// How long a step takes in which all ranks do as training::BucketSchedule does, with the production collectives over
/// simulated links of the situation's latency and rate, each rank with a computing thread, an encoder, a decoder and a
/// thread for the messages. No data is moved. A sender never waits for acknowledgements: links keep as much on its way
/// as they can carry. Fails with what collectives fail with.
Result<double> simulated_seconds(const training::Situation& situation, std::span<const BucketWork> buckets);

}  // namespace weir::bench
