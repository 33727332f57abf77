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
/// Each bucket has a stream beside what the device computes: there values come down, or are encoded where they are, and
/// means may be made. Others go up in the stream in which the device computes. Nothing waits for the whole device.
///
/// There are only some streams (compressors/device), so that of many buckets several have the same one. The host is far
/// ahead of the device: it often hands over all buckets before the first values have been computed. If a stream waited
/// for the values of a bucket from then on, they would hold up what a codec thread has yet to put into it for earlier
/// ones. So it waits for them, and they begin to come down, only when a codec thread takes the bucket up. Each thread
/// takes buckets up in the order in which their values are computed, and waits for those of one before it goes on to
/// the next: whatever else is in the stream is held up by no values but the next ones. Plain buckets beside coded ones
/// have a thread of their own, which soon waits for the last values of all: coded buckets do not have their stream.
///
/// Buckets, and in them tensors, by their numbers, in each step:
///
///     hold_back(b)        compute thread, before the step: the last means have been used up
///     note_values(b)      the thread that has computed the bucket's last value, and then for each tensor
///     fetch(t, value)     if the value is to come down; else it must not change, and is to be kept, until join(b)
///     take_up(t)          the codec thread that begins with the bucket, once for all its tensors
///     wait(t)             codec threads: then the copy of what was fetched may be read
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
  void hold_back(std::size_t bucket) { lanes_[bucket].side.hold_back(); }

  /// The values of a bucket are there after what is in the calling thread's current stream.
  void note_values(std::size_t bucket) { lanes_[bucket].side.note(); }

  /// Returns memory of the host, to which take_up() will begin to copy a value. The value must not change, and the copy
  /// not be read, until wait().
  at::Tensor fetch(std::uint32_t tensor, const at::Tensor& value);

  /// Has the stream of the tensor's bucket go on only after the bucket's values, and then copy those that are to come
  /// down.
  void take_up(std::uint32_t tensor);

  /// As long as it exists, the stream of the tensor's bucket is the calling thread's current one.
  c10::OptionalStreamGuard in_stream_of(std::uint32_t tensor) const {
    return c10::OptionalStreamGuard(lanes_[places_[tensor].bucket].side.stream());
  }

  /// Has the calling thread's current stream go on only after what is in the stream of the bucket.
  void join(std::size_t bucket) { lanes_[bucket].side.join(); }

  /// Blocks until the values of this tensor's bucket that were taken up last are in the host's memory, and the means
  /// that were put before hold_back() on the device.
  void wait(std::uint32_t tensor) const { lanes_[places_[tensor].bucket].side.wait(); }

  /// Copies a mean to the device, where it is dense: of a sparse one only the entries.
  void put(std::uint32_t tensor, const Mean& mean);

  /// Instead of put(): the mean was made on the device.
  void leave(std::uint32_t tensor) { places_[tensor].positions.reset(); }

  /// By tensor, as they were put last or made there.
  std::span<Mean> means() { return means_; }

 private:
  struct Place {
    at::Tensor value;      ///< on the device, from fetch() until its mean is put
    at::Tensor copy;       ///< in the host's memory, once one was fetched
    at::Tensor positions;  ///< on the device: of the entries of the mean that are not zero, if it was sparse
    std::size_t bucket = 0;
  };

  struct Lane {
    SideStream side;
    std::vector<std::uint32_t> fetched;  ///< tensors whose values take_up() copies
  };

  void put_entries(Place& place, const Mean& mean, at::Tensor& to);

  const at::Device device_;
  std::vector<Lane> lanes_;    ///< by bucket
  std::vector<Place> places_;  ///< by tensor
  std::vector<Mean> means_;    ///< by tensor
};

}  // namespace weir::training
