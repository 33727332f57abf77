#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <cstdint>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/mean.hpp"

namespace weir::training {

using compressors::NamedTensor;

/// The values and means of tensors that lie on a device, for an exchange whose collectives work in the host's memory.
/// Each bucket has a stream of its own, beside what the device computes: there values come down, or are encoded where
/// they are. Means go up in the stream in which the device computes. Nothing waits for the whole device.
///
///     fetch(t, value)     compute thread, or the one of the backward pass: the value comes down
///     keep(t, value)      the same: the value stays where it is
///     wait(t)             encoder: then the copy of what was fetched may be read
///     in_stream_of(t)     codec threads: what they do with tensors on the device is done in the bucket's stream
///     join(t)             compute thread, after the exchange, and then for each tensor
///     put(t, mean)        or, if its mean is there already,
///     release(t)
///
/// Exceptions of LibTorch go through: out of memory, say.
class HostCopies {
 public:
  /// `tensors`: names and shapes, on the device. `means`: by tensor, those that are made on the device; others count as
  /// none.
  HostCopies(std::span<const NamedTensor> tensors, std::span<const Bucket> buckets, std::span<const Mean> means = {});

  /// Begins to copy a value behind the work of the calling thread's current stream. The value must not change, and the
  /// copy not be read, until wait().
  at::Tensor fetch(std::uint32_t tensor, const at::Tensor& value);

  /// The value is to be read in its bucket's stream, behind the work of the calling thread's current stream. It must
  /// not change until join().
  at::Tensor keep(std::uint32_t tensor, const at::Tensor& value);

  /// As long as it exists, the stream of the tensor's bucket is the calling thread's current one.
  c10::OptionalStreamGuard in_stream_of(std::uint32_t tensor) const {
    return c10::OptionalStreamGuard(places_[tensor].stream);
  }

  /// Has the calling thread's current stream go on only after what is in the stream of the tensor's bucket.
  void join(std::uint32_t tensor) const;

  /// Has the stream of the tensor's bucket go on only after what is in the calling thread's current one.
  void hold_back(std::uint32_t tensor) const;

  /// Blocks until the values of this tensor's bucket that were fetched last are in the host's memory, and the means
  /// that were put before them on the device.
  void wait(std::uint32_t tensor) const;

  /// Copies a mean to the device, where it is dense: of a sparse one only the entries.
  void put(std::uint32_t tensor, const Mean& mean);

  /// The value is not used any more, and nothing is to be put.
  void release(std::uint32_t tensor) { places_[tensor].value.reset(); }

  /// By tensor, as they were put last.
  std::span<Mean> means() { return means_; }

 private:
  struct Place {
    at::Tensor value;      ///< on the device, while it is copied
    at::Tensor copy;       ///< in the host's memory
    at::Tensor positions;  ///< on the device: of the entries of the mean that are not zero, if it was sparse
    c10::Stream stream;
  };

  void put_entries(Place& place, const Mean& mean, at::Tensor& to);

  const at::Device device_;
  std::vector<Place> places_;  ///< by tensor
  std::vector<Mean> means_;    ///< by tensor
};

}  // namespace weir::training
