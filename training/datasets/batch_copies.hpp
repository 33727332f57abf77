#pragma once

#include <array>
#include <cstddef>

#include "training/datasets/dataset.hpp"
#include "training/side_stream.hpp"

namespace weir::training {

/// Copies batches to a device, in a stream of its own, while that computes with the ones before. There is memory for
/// two: the one that is copied, and the one that is computed with.
///
///     hold_back()      the thread that computes: it has put into its stream all that needs the batch before the last
///     begin(batch)     the thread that prepares batches
///     join()           the thread that computes, before it uses what begin() has returned
///
/// Exceptions of LibTorch go through: out of memory, say.
class BatchCopies {
 public:
  explicit BatchCopies(at::Device device);

  /// Has the next copy begin only after what is in the calling thread's current stream.
  void hold_back() { beside_.hold_back(); }

  /// The same batch in memory of the host that the device reads by itself: as it is, if it lies in such.
  Batch in_their_memory(Batch batch) const;

  /// Begins to copy a batch that lies there. It must not change until wait() or the end of this object. The one
  /// returned is on the device, valid until the second begin() after this.
  Batch begin(const Batch& batch);

  /// Has the calling thread's current stream go on only after the copy.
  void join() { beside_.join(); }

  /// Blocks until what was begun has been copied.
  void wait() const { beside_.wait(); }

 private:
  at::Tensor in_their_memory(const at::Tensor& tensor) const;
  void copy(const at::Tensor& from, at::Tensor& to);

  const at::Device device_;
  SideStream beside_;
  std::array<Batch, 2> places_;  ///< on the device
  std::size_t next_ = 0;         ///< the place of the next one
};

}  // namespace weir::training
