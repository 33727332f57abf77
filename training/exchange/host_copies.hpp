#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/mean.hpp"
#include "training/side_stream.hpp"

namespace weir::training {

using compressors::NamedTensor;

/// The values and means of tensors that lie on a device, for an exchange whose collectives work in the host's memory.
/// Each bucket has a stream of its own, beside what the device computes: there values come down, or are encoded where
/// they are, and means may be made. Others go up in the stream in which the device computes. Nothing waits for the
/// whole device. Buckets, and in them tensors, by their numbers, in each step:
///
///     hold_back(b)        compute thread, before the step: the last means have been used up
///     hold_back(b)        the thread that has computed the bucket's last value, and then for each tensor
///     fetch(t, value)     if the value is to come down; else it must not change, and is to be kept, until join(b)
///     wait(t)             encoder: then the copy of what was fetched may be read
///     in_stream_of(t)     codec threads: what they do with tensors on the device is done in the bucket's stream
///     join(b)             compute thread, after the exchange, and then for each tensor
///     put(t, mean)        or, if its mean is there already,
///     leave(t)
///
/// Exceptions of LibTorch go through: out of memory, say.
class HostCopies {
 public:
  /// `tensors`: names and shapes, on the device. `means`: by tensor, those that are made on the device; others count as
  /// none.
  HostCopies(std::span<const NamedTensor> tensors, std::span<const Bucket> buckets, std::span<const Mean> means = {});

  /// Has the stream of a bucket go on only after what is in the calling thread's current one.
  void hold_back(std::size_t bucket) { lanes_[bucket].hold_back(); }

  /// Begins to copy a value in the stream of its bucket. The value must not change, and the copy not be read, until
  /// wait().
  at::Tensor fetch(std::uint32_t tensor, const at::Tensor& value);

  /// As long as it exists, the stream of the tensor's bucket is the calling thread's current one.
  c10::OptionalStreamGuard in_stream_of(std::uint32_t tensor) const {
    return c10::OptionalStreamGuard(lanes_[places_[tensor].bucket].stream());
  }

  /// Has the calling thread's current stream go on only after what is in the stream of the bucket.
  void join(std::size_t bucket) { lanes_[bucket].join(); }

  /// Blocks until the values of this tensor's bucket that were fetched last are in the host's memory, and the means
  /// that were put before hold_back() on the device.
  void wait(std::uint32_t tensor) const { lanes_[places_[tensor].bucket].wait(); }

  /// Copies a mean to the device, where it is dense: of a sparse one only the entries.
  void put(std::uint32_t tensor, const Mean& mean);

  /// Instead of put(): the mean was made on the device.
  void leave(std::uint32_t tensor) { places_[tensor].positions.reset(); }

  /// By tensor, as they were put last or made there.
  std::span<Mean> means() { return means_; }

 private:
  struct Place {
    at::Tensor value;      ///< on the device, while it is copied
    at::Tensor copy;       ///< in the host's memory, once one was fetched
    at::Tensor positions;  ///< on the device: of the entries of the mean that are not zero, if it was sparse
    std::size_t bucket = 0;
  };

  void put_entries(Place& place, const Mean& mean, at::Tensor& to);

  const at::Device device_;
  std::vector<SideStream> lanes_;  ///< by bucket
  std::vector<Place> places_;      ///< by tensor
  std::vector<Mean> means_;        ///< by tensor
};

}  // namespace weir::training
