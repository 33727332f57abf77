#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "collectives/collective.hpp"

namespace weir::training {

/// Where shares are added up.
enum class SumPlace : std::uint8_t {
  device,
  host,  ///< in the host's memory
  both,  ///< those of a host's ranks on the device, then the sums of hosts in the host's memory
};

/// What the ranks add up of a bucket whose tensors lie on a device: one number for each entry. Shares and means are
/// made in the device's memory, and added up there or in the host's, to which the shares then come down and from which
/// the sums go up. Everything is put into the calling thread's current stream there, which has to be the bucket's
/// (HostCopies::in_stream_of), and only what the functions return comes down besides.
///
///     gather(values, share, vote)    all-reduce numbers() in place    conclude()    then means() are there
///
/// In both places:
///
///     gather(values, share, vote)    all-reduce numbers_there()    bring_down()    all-reduce numbers()    bring_up()
///     conclude()
///
/// Exceptions of LibTorch go through.
class DeviceSum {
 public:
  /// `number`: of what type the numbers are, float32 or one of 16 bits. `with_vote`: with a float32 more.
  DeviceSum(at::Device device, at::ScalarType number, std::int64_t entries, bool with_vote, SumPlace place);

  /// Takes a share of the values of all tensors, which are contiguous and float32. False if one is NaN or infinite.
  /// Fails as compressors/device.
  Result<bool> gather(std::span<const at::Tensor> values, float share, float vote);

  /// Where they are added up; the place that is left last.
  collectives::Buffer numbers() const;
  /// On the device, for the stream of the last gather().
  collectives::Buffer numbers_there() const;
  /// In both places: what has been added up on the device is in the host's memory when this returns.
  void bring_down();
  /// And back, without waiting.
  void bring_up();
  std::size_t number_bytes() const { return numbers_.element_size(); }

  /// Makes means of the sums. Fails with: malformed (a sum of 16 bits is not finite), and as compressors/device.
  Result<void> conclude();

  /// One after the other, float32: overwritten by the next gather() or conclude().
  const at::Tensor& means() const { return means_; }
  /// Of all ranks together.
  float votes() const { return votes_; }

 private:
  const std::int64_t entries_;
  const bool with_vote_;
  const SumPlace place_;
  const at::Tensor means_;    ///< and the vote
  const at::Tensor numbers_;  ///< the same, if they are float32
  const at::Tensor below_;    ///< these in the host's memory, if they are added up there
  void* stream_ = nullptr;    ///< of the last gather()
  float votes_ = 0;
};

}  // namespace weir::training
