#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "actors/buckets.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"
#include "compressors/catalog.hpp"

namespace weir::actors {

using compressors::NamedTensor;

/// Averages the gradients of all ranks while the backward pass runs. Hooks on the parameters notice when the gradients
/// of a bucket are complete, and a communication thread takes the buckets through compensate, encode, all-gather or
/// all-reduce, decode and update, always in the same order on all ranks.
///
///     exchange.begin({step, epoch, learning_rate, vote});
///     loss.backward();
///     agreed = exchange.finish();       // then exchange.gradients() are the means over all ranks, equal everywhere
///
/// Owned by the trainer; used by its compute thread. After the first failure every step fails.
class Exchange {
 public:
  struct Options {
    std::uint64_t seed = 0;
    double epochs_total = 0;  ///< passes over the data in the whole training; 0: not known
    BucketSizes bucket_sizes;
  };

  /// A step, as compressors and memories see it (compressors::Round).
  struct Step {
    std::uint64_t number = 0;  ///< optimizer steps done before this one
    double epoch = 0;          ///< passes over the data done so far, with fraction
    double learning_rate = 1;
    float vote = 0;  ///< this rank's vote, for Agreed::votes
  };

  /// Where a step's exchange spent its time, in seconds. All but `wait` are times of the communication thread, which
  /// runs beside the backward pass; `wait` is how long the compute thread waited for it afterwards.
  struct Times {
    double encode = 0;
    double exchange = 0;
    double decode = 0;
    double wait = 0;
  };

  /// The result of one step.
  struct Agreed {
    float votes = 0;  ///< the sum of all ranks' votes
    Times times;
  };

  /// `parameters` are leaf tensors that require gradients. The communication thread uses `group`, which must outlive
  /// this object.
  Exchange(std::vector<NamedTensor> parameters, compressors::Compression compression, collectives::Communicator& group,
           Options options);
  /// Ends the communication thread. An exchange in progress must be ended first, by Communicator::abort.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Must be called before the backward pass of `step`.
  void begin(const Step& step);

  /// Must be called after the backward pass: waits until all buckets have been exchanged. Parameters without a gradient
  /// count as zero. Fails with what Communicator, Compressor and Memory fail with.
  Result<Agreed> finish();

  /// The mean gradient of each parameter, valid until the next begin().
  std::span<const at::Tensor> gradients() const { return means_; }

  const compressors::Compression& compression() const { return compression_; }

  /// The buckets in the order in which they are exchanged.
  std::span<const Bucket> buckets() const { return buckets_; }

  /// The bytes that each rank would send per step without compression: those of a ring all-reduce, without headers.
  std::uint64_t dense_bytes_per_step() const;

 private:
  class ReadyHook;
  struct Hook;

  void on_ready(std::uint32_t parameter);
  void communicate(const std::stop_token& stopping);
  Result<void> run(std::size_t bucket);
  Result<void> run_plain(std::size_t bucket);
  Result<void> run_coded(const Bucket& bucket);
  Result<void> run_dense(const Bucket& bucket);
  Result<void> encode_passes(const Bucket& bucket);
  Result<void> gather_pass(const Bucket& bucket, std::uint32_t pass, bool last);
  Result<void> sum_pass(const Bucket& bucket, compressors::Reduction reduction, std::uint32_t pass, bool last);
  Result<void> sum(Bytes& payload, compressors::Reduction reduction);
  Result<void> take(std::uint32_t parameter, std::span<const BytesView> results, std::uint32_t pass, bool last,
                    BytesView own);
  compressors::Round round_of(std::uint32_t parameter, std::uint32_t pass) const;
  at::Tensor gradient_of(std::uint32_t parameter) const;

  std::vector<NamedTensor> parameters_;
  compressors::Compression compression_;
  collectives::Communicator& group_;
  Options options_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> bucket_of_;  ///< by parameter
  std::vector<at::Tensor> flats_;         ///< by bucket; plain ones only, the last with one float more for the votes
  std::vector<at::Tensor> means_;         ///< by parameter; in plain buckets, views of the flat tensor
  std::vector<std::unique_ptr<Hook>> hooks_;  ///< by parameter

  // Used by the compute thread.
  std::vector<bool> ready_;           ///< by parameter
  std::vector<std::size_t> missing_;  ///< by bucket: number of parameters not ready
  std::size_t next_ = 0;              ///< the bucket to hand over next

  // Used by the communication thread while a step is in progress.
  Step step_;
  Agreed agreed_;
  std::vector<float> dense_;             ///< the tensors of a coded bucket that go dense in this round
  std::vector<at::Tensor> compensated_;  ///< by position in the bucket
  Bytes payload_;                        ///< payloads of all tensors of the bucket
  std::vector<std::size_t> ends_;        ///< where each tensor's payload ends in payload_
  Bytes own_sum_;                        ///< copy of payload_ from before the sum overwrote it
  std::vector<Bytes> gathered_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t handed_over_ = 0;  ///< number of buckets whose gradients are complete
  std::size_t through_ = 0;      ///< number of buckets exchanged
  std::optional<Error> failure_;
  std::jthread thread_;  ///< last: it uses all of the above
};

/// Checks that all ranks have the same parameters, bit for bit. Fails with: conflict (they differ), and with what
/// `group` fails with.
Result<void> check_equal(std::span<const NamedTensor> parameters, collectives::Communicator& group);

}  // namespace weir::actors
