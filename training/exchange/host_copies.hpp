#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/mean.hpp"

namespace weir::training {

using compressors::NamedTensor;

/// The values and means of tensors that lie on a device, for an exchange whose compressors and collectives work in the
/// host's memory. Values come down in streams of their own, one for each bucket, beside what the device computes; means
/// go up in the stream in which it computes. Nothing waits for the whole device.
///
///     fetch(t, value)     compute thread, or the one of the backward pass
///     wait(t)             encoder: then the host's copy may be read
///     put(t, mean)        compute thread, after the exchange
///
/// Exceptions of LibTorch go through: out of memory, say.
class HostCopies {
 public:
  /// `tensors`: names and shapes, on the device.
  HostCopies(std::span<const NamedTensor> tensors, std::span<const Bucket> buckets);

  /// Begins to copy a value behind the work of the calling thread's current stream. The value must not change, and the
  /// copy not be read, until wait().
  at::Tensor fetch(std::uint32_t tensor, const at::Tensor& value);

  /// Blocks until the values of this tensor's bucket that were fetched last are in the host's memory, and the means
  /// that were put before them on the device.
  void wait(std::uint32_t tensor) const;

  /// Copies a mean to the device, where it is dense: of a sparse one only the entries.
  void put(std::uint32_t tensor, const Mean& mean);

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
