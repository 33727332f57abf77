#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "training/datasets/batch_copies.hpp"
#include "training/datasets/dataset.hpp"

namespace weir::training {

/// Prepares the next batch of a training on a thread of its own while the step at hand computes, and copies it to the
/// device that computes. The batches are the same as without it. There is memory for two, here and on the device: one
/// is prepared, and one is computed with.
///
///     loader.ask(positions, pass);
///     batch = loader.take();          // waits for it
///     loader.ask(next_positions, pass);
///     ...                             // compute with `batch`, up to the next ask() but one
///
/// Owned and used by one thread. What preparing a batch throws, take() throws.
class Loader {
 public:
  /// `examples` must outlive this object.
  explicit Loader(const Examples& examples, at::Device device = at::kCPU);
  /// Waits for a batch that is being prepared.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins to prepare a batch. The one asked for before must have been taken.
  void ask(std::span<const std::uint32_t> positions, const Pass& pass);

  /// Whether a batch has been asked for and not taken.
  bool asked() const { return asked_; }

  /// The batch asked for, on the device.
  Batch take();

 private:
  void run();
  Batch prepare();

  const Examples& examples_;
  std::optional<BatchCopies> copies_;  ///< if the device is not the processor
  bool asked_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false;  ///< the thread has something to do
  bool ending_ = false;
  std::vector<std::uint32_t> positions_;
  Pass pass_;
  std::array<Batch, 2> memory_;  ///< on the host; of the thread
  std::size_t next_ = 0;
  std::optional<Batch> batch_;
  std::exception_ptr failure_;

  std::thread thread_;  ///< last: it uses the others
};

}  // namespace weir::training
