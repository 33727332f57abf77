#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/half.hpp"
#include "base/result.hpp"
#include "collectives/collective.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/coded_round.hpp"
#include "training/exchange/device_sum.hpp"
#include "training/exchange/gathering_round.hpp"
#include "training/exchange/hops_round.hpp"
#include "training/exchange/owners_round.hpp"
#include "training/exchange/route.hpp"
#include "training/exchange/split_round.hpp"
#include "training/exchange/step.hpp"

namespace weir::training {

/// Takes the gradients of one bucket through a step. It has no threads and knows no network: between its functions the
/// caller carries what they leave in dense() and coded() over the group.
///
///     begin(step, route)
///     if by_hosts():             gather_host()    sum host_sums() within the host to its leader, who alone goes on if
///                                the bucket goes_between_hosts()
///     if dense() is not empty:   gather_dense()   all-reduce dense() by reduction()   conclude_dense()
///     for each pass of coded():  encode(pass)     as CodedRound says              coded().decode(pass)
///     if by_hosts():             put_host_means()    copy host_means() from the leader to its host
///                                take_host_means(), on all of them
///
/// It calls the compressor and the memory, which serve the rounds of all buckets: on the encoder for one bucket while
/// on the decoder for another, so that what they keep is of one tensor each.
class BucketRound {
 public:
  /// `votes`: the bucket carries one float more, for the votes. `first_piece`: a number from which on the model's other
  /// parameters and pieces have none.
  BucketRound(const RoundSetting& setting, const Bucket& bucket, bool votes, std::uint32_t first_piece);

  /// Finds out which tensors go dense in `step`. From here on the bucket's stream on a device waits for their values.
  void begin(const Step& step, const Route& route);

  /// Whether its values lie on a device.
  bool is_of_device() const { return setting_.copies != nullptr; }
  /// Whether some of its tensors may be encoded; else it does without compressor and memory until conclude_dense().
  bool may_code() const { return bucket_.coded; }

  /// Whether the value of a parameter of the bucket, which lies on a device, is encoded there in such a step, or its
  /// share taken: then it has to stay where it is. On any thread.
  bool works_in_place(const Step& step, const Route& route, std::uint32_t parameter) const;
  /// Whether the mean of a parameter of the bucket was made there in the last step.
  bool has_mean_there(std::uint32_t parameter) const;

  /// The tensors whose bytes are carried together, and where each of them ends among the bytes.
  struct Load {
    std::span<const std::uint32_t> parameters;
    std::span<const std::size_t> ends;
  };

  /// Whether gradients are summed within each host before they are encoded. Between devices, those of a plain bucket
  /// are, too: only what the leaders add up then comes down to a host's memory.
  bool by_hosts() const { return setting_.by_hosts && (bucket_.coded || (setting_.host_sums_there && device_sum_)); }
  /// Whether leaders have something to do with the sums. What has no code ends with them on a single host.
  bool goes_between_hosts() const { return !device_sum_ || setting_.world > 1; }
  Result<void> gather_host();
  /// In the devices' memory if that is where they are made, as the means that are copied.
  collectives::Buffer host_sums();
  collectives::ReduceOp host_reduction() const;  ///< of host_sums()
  void put_host_means();
  collectives::Buffer host_means();
  Result<void> take_host_means();
  Load host_load() const { return {bucket_.parameters, host_ends_}; }

  /// This rank's shares of the tensors that are averaged as they are, because the compressor does not take them or lets
  /// them go dense in this step (Compressor::goes_dense) or the route says so, and its vote.
  collectives::Buffer dense();
  collectives::ReduceOp reduction() const;  ///< of dense()
  Result<void> gather_dense();
  Result<void> conclude_dense();
  /// The sum of the ranks' votes, or the largest, after conclude_dense().
  float votes() const { return votes_sum_; }
  Load dense_load() const { return {dense_parameters_, dense_ends_}; }

  /// The tensors that are encoded.
  CodedRound& coded() { return *coded_; }
  Result<void> encode(std::uint32_t pass);
  Load coded_load() const { return {coded_parameters_, coded_->payload_ends()}; }

  std::size_t piece_count() const { return piece_count_; }

  /// Between two steps: leaves what this rank has left out as an owner to its memory, if that has a place for it.
  void leave_what_is_owned(const Step& step);

  /// What this rank keeps as an owner, and what the ranks have agreed on.
  void save(std::vector<NamedTensor>& state) const;
  Result<void> restore(std::span<const NamedTensor> state);

 private:
  const CodedRound& round_for(const Route& route) const;
  bool makes_means_there() const;
  bool decodes_there(std::uint32_t parameter) const;
  bool encodes_there(const Step& step, const Route& route, std::uint32_t parameter) const;
  bool encodes(const Step& step, const Route& route, std::uint32_t parameter) const;
  at::Tensor value_of(std::uint32_t parameter) const;
  void put_means_into(const at::Tensor& flat);
  void find_memory_for(std::span<const std::uint32_t> parameters);
  float share() const;
  float vote() const;
  Result<void> gather_there(DeviceSum& sum, float share);
  Result<void> conclude_there();

  const RoundSetting& setting_;
  const Bucket& bucket_;
  const bool with_votes_;
  std::size_t piece_count_ = 0;
  std::unique_ptr<CodedRound> gathering_;
  std::unique_ptr<CodedRound> by_owners_;  ///< if the group has owners

  Step step_;
  Route route_;
  bool rounded_ = false;  ///< the dense tensors are summed in 16 bits
  CodedRound* coded_ = nullptr;
  std::vector<std::uint32_t> dense_parameters_;
  std::vector<std::size_t> dense_ends_;
  std::vector<std::uint32_t> coded_parameters_;
  std::vector<at::Tensor> gradients_;  ///< of those, while they are encoded
  at::Tensor
      dense_;  ///< the dense tensors one after the other, then the vote; the means of a bucket that is never coded
  std::vector<BFloat16> dense_rounded_;
  std::unique_ptr<DeviceSum> device_sum_;  ///< instead of these, if means are made on a device
  float votes_sum_ = 0;

  // In an exchange by hosts of a bucket that is coded: of all parameters, one after the other.
  std::unique_ptr<DeviceSum> host_sum_;  ///< makes the sums, if they are made on a device
  at::Tensor host_sums_;
  at::Tensor host_means_;
  std::vector<std::size_t> host_ends_;
  std::map<std::uint32_t, at::Tensor> host_sum_of_;  ///< by parameter: its part of host_sums_
};

}  // namespace weir::training
